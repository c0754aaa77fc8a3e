"""Marks on a task's way through the server: what a thread's processor time is spent for, each part by itself."""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from time import thread_time_ns
from types import ModuleType
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from treadle_server.engine import engine as engines
from treadle_server.engine.fast_path.submits import FastSubmits
from treadle_server.engine.hub import Hub
from treadle_server.live import client_ops, session
from treadle_server.live.outbox import Outbox
from treadle_server.store.sqlite import writer
from treadle_server.store.transaction import hot

REST = "the loop, tasks, services, and what has no mark"

PARTS: tuple[tuple[str, type | ModuleType, tuple[str, ...]], ...] = (
    ("a frame from the socket's bytes, and to the application", WebSocketsSansIOProtocol, ("data_received",)),
    ("items of the frame's JSON", session, ("read_frame",)),
    ("what is asked and by whom, the answer as JSON", session, ("_answer",)),
    ("whether it may be asked, the payload's check, its hash", client_ops, ("submit_each",)),
    ("the command waits", engines.Engine, ("run",)),
    ("the batch: what has no mark in it", engines.Engine, ("_turn",)),
    ("a unit of work", engines, ("UnitOfWork",)),
    ("BEGIN IMMEDIATE", writer, ("_lock",)),
    ("whether another has written", writer.InlineConnection, ("data_version",)),
    ("the task, its number and place", FastSubmits, ("submit",)),
    ("the counts", hot, ("apply_counts",)),
    ("the INSERT", hot, ("insert",)),
    ("commands that are not plain", engines.Engine, ("_apply",)),
    ("who has room for it", engines.Engine, ("_note_claimable", "_assign")),
    ("COMMIT", writer.InlineWriter, ("_commit",)),
    ("what is remembered", engines.Engine, ("_remember",)),
    ("what the commit tells", Hub, ("publish",)),
    ("the outbox, a frame of it", Outbox, ("put", "frame")),
    ("the frame to the socket", session, ("_write",)),
)
"""What stands in the order of the way; what is named within another part is taken out of that."""


class Marks:
    """Processor time of one thread, by what it was spent for, in nanoseconds."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = defaultdict(int)
        self._stack = [REST]
        self._since = 0

    def begin(self) -> None:
        """Begin anew, in the thread that is looked at."""
        self.spent.clear()
        self._since = thread_time_ns()

    def enter(self, name: str) -> None:
        """Spend for this from now on."""
        self.turn()
        self._stack.append(name)

    def leave(self) -> None:
        """Spend for what was entered before."""
        self.turn()
        self._stack.pop()

    def turn(self) -> None:
        """Put what was spent to what it was spent for."""
        at = thread_time_ns()
        self.spent[self._stack[-1]] += at - self._since
        self._since = at


class _Marked:
    """A coroutine that is marked in each stretch between two waits."""

    def __init__(self, marks: Marks, name: str, work: Any) -> None:
        self._marks, self._name, self._work = marks, name, work

    def __await__(self) -> Generator[Any, Any, Any]:
        step, given = self._work.send, None
        while True:
            self._marks.enter(self._name)
            try:
                asked = step(given)
            except StopIteration as end:
                return end.value
            finally:
                self._marks.leave()
            try:
                step, given = self._work.send, (yield asked)
            except BaseException as error:  # noqa: BLE001 - the coroutine's to take
                step, given = self._work.throw, error


def marked(marks: Marks, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a mark around it."""

    @wraps(function)
    async def waits(*args: Any, **more: Any) -> Any:
        return await _Marked(marks, name, function(*args, **more))

    @wraps(function)
    def plain(*args: Any, **more: Any) -> Any:
        marks.enter(name)
        try:
            return function(*args, **more)
        finally:
            marks.leave()

    return waits if iscoroutinefunction(function) else plain


@contextmanager
def on_the_way(marks: Marks) -> Iterator[None]:
    """Put marks around every part during the block: whatever is opened in it is marked."""
    kept = [(place, name, getattr(place, name)) for _, place, names in PARTS for name in names]
    for what, place, names in PARTS:
        for name in names:
            setattr(place, name, marked(marks, what, getattr(place, name)))
    try:
        yield
    finally:
        for place, name, function in kept:
            setattr(place, name, function)
