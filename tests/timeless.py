"""An event loop whose time is not the machine's: where everybody waits, it goes on at once to the next moment."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Skipping(selectors.DefaultSelector):
    """Looks whether something came, and lets time pass instead of waiting for it."""

    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> Any:
        if not (found := super().select(0)):
            if timeout is None:
                raise RuntimeError("everybody waits for something that never comes")
            self._skip(max(0.0, timeout))
        return found


class TimelessLoop(asyncio.SelectorEventLoop):
    """For what sleeps and wakes in one thread, without sockets and files."""

    def __init__(self) -> None:
        self._at = 1000.0
        super().__init__(_Skipping(self._pass))

    def _pass(self, seconds: float) -> None:
        self._at += seconds

    def time(self) -> float:
        return self._at


def in_no_time(work: Coroutine[Any, Any, T]) -> T:
    """Run it; its minutes take milliseconds."""
    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        return runner.run(work)
