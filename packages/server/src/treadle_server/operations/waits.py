"""Requests that wait until a task is over: woken by the commit, with a poll behind it; they hold no connection."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from treadle.wire.ids import TaskId
from treadle.wire.status import TERMINAL
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch

POLL_SECONDS = 5.0
"""How often a waiting request reads the task itself, as another server's commit may not have been heard of."""


T = TypeVar("T")


class Waits:
    """Wakes requests that wait until a task is over."""

    def __init__(self) -> None:
        self.closing = asyncio.Event()
        """Set when the server shuts down: no request waits any longer then."""
        self._events: dict[TaskId, set[asyncio.Event]] = defaultdict(set)

    def close(self) -> None:
        """End all waits, and those that begin later: the server is shutting down."""
        self.closing.set()
        for events in self._events.values():
            for event in events:
                event.set()

    def awaits(self, task_id: TaskId) -> bool:
        """Return whether a request waits for the task."""
        return task_id in self._events

    def on_commit(self, batch: Batch) -> None:
        """Wake the waiters of every task that a commit ended."""
        if not self._events:
            return
        if batch.has_gap:
            for event in itertools.chain.from_iterable(self._events.values()):
                event.set()
        for change in batch.tasks:
            if change.task.status in TERMINAL:
                for event in self._events.get(change.task.id, ()):
                    event.set()

    @contextmanager
    def _listening(self, task_id: TaskId) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._events[task_id].add(event)
        try:
            yield event
        finally:
            self._events[task_id].discard(event)
            if not self._events[task_id]:
                del self._events[task_id]

    async def until_over(self, task_id: TaskId, seconds: float, read: Callable[[], Awaitable[Task]]) -> bool:
        """Wait until the task is terminal or `seconds` have passed; return whether it waited. Raises as `read`."""
        has_waited = False
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        with self._listening(task_id) as event:
            # Read only after listening has begun, so that no end in between is missed.
            while (await read()).status not in TERMINAL and (left := end - loop.time()) > 0:
                if self.closing.is_set():
                    break
                has_waited = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, POLL_SECONDS)):
                        await event.wait()
                event.clear()
        return has_waited
