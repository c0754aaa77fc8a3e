"""Following a task to its end: its states are pushed, or polled for where nothing is pushed."""

import asyncio
from collections.abc import Callable

from treadle.client.connection import Connection
from treadle.client.requests import task_of
from treadle.client.results import RawTask
from treadle.client.watches import Watched
from treadle.clock import monotonic
from treadle.encryption.sealer import Sealer
from treadle.errors import SocketRefused, TaskNotFound, TooManyRequests, WaitTimeout
from treadle.wire.amounts import in_seconds
from treadle.wire.status import TERMINAL
from treadle.wire.tasks import TaskItem

PAUSE = 1.0
"""Seconds between two polls, where nothing is pushed."""

BEATS = frozenset({"taken_until"})
"""Fields that each heartbeat of the worker changes."""


class Following:
    """Yields the states of one task, each when it differs from the last; `opening` and `sealer` are its client's."""

    def __init__(
        self,
        opening: Callable[[], Connection],
        sealer: Sealer,
        task_id: str,
        *,
        is_coming: bool,
        timeout: float | None,
    ) -> None:
        self._opening = opening
        self._sealer = sealer
        self._task_id = task_id
        self._is_coming = is_coming
        self._timeout = timeout
        self._until = None if timeout is None else monotonic() + timeout
        self._connection: Connection | None = None
        self._watched: Watched | None = None
        self._must_look = False
        """Whether to poll, because the server refuses to push any more to this client."""
        self._is_shown = True
        """Whether the task is pushed, as far as is known: lists contain only what the token's scopes reach."""
        self._looks = 0
        self._last: RawTask | None = None

    async def next(self) -> TaskItem | None:
        """Return the task as soon as it has changed; None after it was returned as ended.

        Raises `WaitTimeout`, `TaskNotFound` unless it is yet to be submitted, `NoClient` and `ConnectionFailed`.
        """
        if self._last is not None and self._last["status"] in TERMINAL:
            return None
        return await self._opening().run(self._next())

    def end(self) -> None:
        """Stop following; does nothing if the client is closed."""
        connection, watched = self._connection, self._watched
        self._watched = None
        if connection is not None and watched is not None:
            connection.unwatch(watched)

    async def _next(self) -> TaskItem:
        if self._timeout == 0 and self._last is None and (found := await self._look(self._opening())) is not None:
            self._last = found
            return task_of(self._sealer, found)
        left = None if self._until is None else max(0.0, self._until - monotonic())
        try:
            async with asyncio.timeout(left):
                task = await self._another()
        except TimeoutError:
            raise too_late(self._task_id, self._timeout) from None
        return task_of(self._sealer, task)

    async def _another(self) -> RawTask:
        while True:
            task = await self._state()
            if task is not None and _seen(task) != _seen(self._last or {}):
                self._last = task
                return task

    async def _state(self) -> RawTask | None:
        """Return a state of the task, None for none. Raises `TaskNotFound`, unless the task may still be submitted."""
        connection = self._opening()
        if connection is not self._connection:
            self._connection, self._watched, self._looks = connection, None, 0
        if connection.is_plain or self._must_look:
            if self._looks:
                await asyncio.sleep(PAUSE)
            return await self._look(connection)
        try:
            if self._watched is None:
                self._watched = await connection.watches.begin(self._task_id)
            task = await self._pushed(self._watched)
        except SocketRefused:
            return None  # From now on everything goes over plain HTTP.
        except TooManyRequests:
            self._must_look = True
            return None
        self._is_shown = task is not None
        if task is None or task.get("left_out"):
            # Lists contain only what the scopes reach; only its own request tells whether the task exists for this
            # token.
            task = await self._look(connection)
        return task

    async def _pushed(self, watched: Watched) -> RawTask | None:
        """Return the next state; None, after a pause, while the task is not shown."""
        try:
            async with asyncio.timeout(None if self._is_shown else PAUSE):
                return await watched.state()
        except TimeoutError:
            return None

    async def _look(self, connection: Connection) -> RawTask | None:
        self._looks += 1
        try:
            task: RawTask = await connection.call("get", {"id": self._task_id})
        except TaskNotFound:
            if self._is_coming and self._last is None:
                return None
            raise
        return task


def too_late(task_id: str, timeout: float | None) -> WaitTimeout:
    """Return the error for a task that has not ended within `timeout` seconds."""
    waited = in_seconds(timeout or 0)
    return WaitTimeout(
        f"task {task_id} had not ended after {waited}; it goes on, and `treadle task {task_id}` shows what it"
        " is waiting for"
    )


def _seen(task: RawTask) -> RawTask:
    return {name: value for name, value in task.items() if name not in BEATS}
