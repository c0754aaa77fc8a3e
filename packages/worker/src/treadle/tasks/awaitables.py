"""What a run's context gives to be awaited: it is there already, or it is noted until it was begun."""

import asyncio
from collections.abc import Coroutine, Generator
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, Generic, TypeVar

R = TypeVar("R")

FEW = 16
"""So much may be noted before it is looked for what was begun meanwhile."""


class Done(Generic[R]):
    """What is there already: awaiting it gives it at once."""

    def __init__(self, value: R) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, R]:
        yield from ()
        return self._value


class Credential(str):
    """A credential that is at hand. Awaiting it gives itself, so that code of every kind may write the same."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, "Credential"]:
        yield from ()
        return self


class Unawaited:
    """What async code was given to be awaited: a run that returns before that has not done it, and is to say so."""

    def __init__(self) -> None:
        self._given: list[tuple[str, Coroutine[Any, Any, Any]]] = []
        self._most = FEW

    def note(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        """Note that `work` is to be awaited, which errors call `what`."""
        self._given.append((what, work))
        if len(self._given) > self._most:
            self._given = self._left()
            self._most = max(FEW, 2 * len(self._given))

    def said(self) -> str | None:
        """Return what is to be said of what was never begun, which is given up; None when there is nothing."""
        left = self._left()
        for _, work in left:
            _forget(work)
        if not left:
            return None
        return f"{left[0][0]} was asked for and never awaited, so that it was not done: write `await` before it"

    def _left(self) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
        # One that was cancelled before it began is closed.
        return [(what, work) for what, work in self._given if getcoroutinestate(work) == CORO_CREATED]


def _forget(work: Coroutine[Any, Any, Any]) -> None:
    """End what has not begun and nobody is to be warned of, be it given to `asyncio.create_task`."""
    for task in asyncio.all_tasks():
        if task.get_coro() is work:
            task.cancel()
            return
    work.close()
