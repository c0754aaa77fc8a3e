"""What a step calls, whichever way it is async."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from treadle.tasks.step_calls import run


def plain(n: int) -> int:
    return n


class Adding:
    async def __call__(self, n: int) -> int:
        return n + 1


class Awaited:
    """An async one made of another function, as Django's `sync_to_async` is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    async def __call__(self, n: int) -> int:
        called: int = self.__wrapped__(n)  # type: ignore[attr-defined]
        return called + 1


@pytest.mark.parametrize("function", [Adding(), functools.partial(Adding()), Awaited(plain)])
async def test_an_object_whose_call_is_async_is_awaited(function: Callable[..., Any]) -> None:
    """Its coroutine was the step's result, which was no JSON."""
    assert await run("add", function, (1,), None, in_loop=True, threads=set()) == 2


@pytest.mark.parametrize("raised", [GeneratorExit, StopIteration])
async def test_what_can_not_be_thrown_into_who_awaits_it_is_told_as_an_error(raised: type[BaseException]) -> None:
    """A `GeneratorExit` of a function in a thread ended the worker: it closes each coroutine that awaits it."""

    def function() -> None:
        raise raised("out of it")

    with pytest.raises(RuntimeError, match=rf"^step 'add' raised {raised.__name__}\('out of it'\)$"):
        await run("add", function, (), None, in_loop=True, threads=set())
