"""Awaitables that a run's context returns: those that are already done, and a record of those not yet awaited."""

import asyncio
from collections.abc import Coroutine, Generator
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, Generic, TypeVar

from treadle.errors import NotAwaited

R = TypeVar("R")

FEW = 16
"""How many coroutines are recorded before those that were begun meanwhile are removed."""


class Done(Generic[R]):
    """An awaitable that is already done: awaiting it returns its value at once."""

    def __init__(self, value: R) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, R]:
        yield from ()
        return self._value


class Credential(str):
    """A credential as a str that can also be awaited, so that all kinds of code can write the same."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, "Credential"]:
        yield from ()
        return self


class Unawaited:
    """The coroutines that async code was given to await; a run that returns without awaiting them is an error."""

    def __init__(self) -> None:
        self._given: list[tuple[str, Coroutine[Any, Any, Any]]] = []
        self._most = FEW

    def note(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        """Record a coroutine that is to be awaited; error messages call it `what`."""
        self._given.append((what, work))
        if len(self._given) > self._most:
            self._given = self._left()
            self._most = max(FEW, 2 * len(self._given))

    def check(self) -> None:
        """Raise `NotAwaited` if some coroutines were never begun, and close them."""
        left = self._left()
        for _, work in left:
            _forget(work)
        if left:
            raise NotAwaited(f"{left[0][0]} was never awaited, so nothing happened: write `await` before it")

    def _left(self) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
        # One that was cancelled before it began is closed.
        return [(what, work) for what, work in self._given if getcoroutinestate(work) == CORO_CREATED]


def _forget(work: Coroutine[Any, Any, Any]) -> None:
    """End a coroutine that has not begun, without a warning, even if it was passed to `asyncio.create_task`."""
    for task in asyncio.all_tasks():
        if task.get_coro() is work:
            task.cancel()
            return
    work.close()
