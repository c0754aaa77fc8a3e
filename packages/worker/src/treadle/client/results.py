"""Who waits for which task's end: results are pushed, never polled for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from treadle.client.items import MOST_OF_REQUEST
from treadle.errors import ConnectionFailed, ProblemError, TreadleError

RawTask = dict[str, Any]
"""A TaskItem as it came, not yet validated: only few of its fields are looked at on the way."""

Ask = Callable[[list[str]], Awaitable[None]]


class ResultWaiters:
    """Futures of tasks' ends by id; `ask` tells the server which ends to push, for all that one loop turn wants."""

    def __init__(self, ask: Ask, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._ask = ask
        self._spawn = spawn
        self._waiting: dict[str, asyncio.Future[RawTask]] = {}
        self._wanted: list[str] = []

    @property
    def ids(self) -> list[str]:
        """The tasks that someone waits for."""
        return list(self._waiting)

    def expect(self, task_id: str) -> asyncio.Future[RawTask]:
        """Return the future of a task's end that the server pushes anyway."""
        future = self._waiting.get(task_id)
        if future is None:
            future = self._waiting[task_id] = asyncio.get_running_loop().create_future()
        return future

    def wait(self, task_id: str) -> asyncio.Future[RawTask]:
        """Return the future of a task's end, and have the server asked for it at the end of this loop turn."""
        if task_id in self._waiting:
            return self._waiting[task_id]
        if not self._wanted:
            self._spawn(self._flush())
        self._wanted.append(task_id)
        return self.expect(task_id)

    def forget(self, task_ids: Iterable[str]) -> None:
        """Drop expectations whose submit was refused."""
        for task_id in task_ids:
            self._waiting.pop(task_id, None)

    def arrive(self, tasks: Iterable[RawTask]) -> None:
        """Take terminal tasks that the server pushed."""
        for task in tasks:
            future = self._waiting.pop(task["id"], None)
            if future is not None and not future.done():
                future.set_result(task)

    async def ask_again(self, ids: Iterable[str]) -> None:
        """Ask for those of the tasks that are still waited for: what was to push their ends is not there any more."""
        if wanted := [task_id for task_id in ids if task_id in self._waiting]:
            await self._ask_for(wanted)

    def fail(self, error: TreadleError) -> None:
        """Fail everyone who waits."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            _set_error(future, error)

    def close(self) -> None:
        """The client is closed: nobody will be told anything any more."""
        self.fail(ConnectionFailed("the client was closed before the task ended"))

    async def _flush(self) -> None:
        ids, self._wanted = self._wanted, []
        await self._ask_for(ids)

    async def _ask_for(self, ids: list[str]) -> None:
        for start in range(0, len(ids), MOST_OF_REQUEST):
            await self._ask_once(ids[start : start + MOST_OF_REQUEST])

    async def _ask_once(self, ids: list[str]) -> None:
        try:
            await self._ask(ids)
        except ProblemError as error:
            # One that is no id refuses them all: find it by asking for each alone.
            if len(ids) == 1:
                self.refuse(ids[0], error)
                return
            for task_id in ids:
                await self._ask_once([task_id])
        except TreadleError as error:
            for task_id in ids:
                self.refuse(task_id, error)

    def refuse(self, task_id: str, error: TreadleError) -> None:
        """Have those who wait for one task's end raise `error`; nothing happens when nobody does."""
        future = self._waiting.pop(task_id, None)
        if future is not None:
            _set_error(future, error)


def _set_error(future: asyncio.Future[RawTask], error: TreadleError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Read once, so that a future nobody waits for any more is not warned about.
