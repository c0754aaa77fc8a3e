"""Futures of the ends of tasks, completed by what the server pushes, not by polling."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from copy import copy
from typing import Any

from treadle.errors import ConnectionFailed, ConnectionLost, TaskNotFound, TreadleError, problem_named
from treadle.transport.answers import reading
from treadle.values import brief
from treadle.wire.fields import MOST_OF_REQUEST
from treadle.wire.status import TERMINAL

RawTask = dict[str, Any]
"""A `TaskItem` as received, not yet validated: only a few of its fields are read on the way."""

_MISSING = (
    "there is no task {}, or you may not see it (a run's credential needs the scope queue:read of its"
    " room); to wait for a task that is yet to be submitted, use client.expect(id)"
)

Ask = Callable[[list[str]], Awaitable[None]]


class ResultWaiters:
    """Futures of tasks' ends by id; `ask` tells the server which ends to push, once for each turn of the loop."""

    def __init__(self, ask: Ask, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._ask = ask
        self._spawn = spawn
        self._waiting: dict[str, asyncio.Future[RawTask]] = {}
        self._wanted: list[str] = []
        self._there: set[str] = set()
        """The waited-for tasks that the server has, according to its answer or to whoever waits."""

    @property
    def ids(self) -> list[str]:
        """The tasks that someone waits for."""
        return list(self._waiting)

    def expect(self, task_id: str) -> asyncio.Future[RawTask]:
        """Return the future of a task's end that the server pushes unasked."""
        future = self._waiting.get(task_id)
        if future is None:
            future = self._waiting[task_id] = asyncio.get_running_loop().create_future()
        return future

    def wait(self, task_id: str, *, is_coming: bool = False) -> asyncio.Future[RawTask]:
        """Return the future of a task's end, and ask the server for it at the end of this turn of the loop.

        With `is_coming`, everyone who waits for this task goes on waiting even if the server doesn't have it yet.
        """
        if is_coming:
            self._there.discard(task_id)
        if task_id in self._waiting:
            return self._waiting[task_id]
        if not is_coming:
            self._there.add(task_id)
        if not self._wanted:
            self._spawn(self._flush())
        self._wanted.append(task_id)
        return self.expect(task_id)

    def forget(self, task_ids: Iterable[str]) -> None:
        """Drop futures of tasks whose submit was refused."""
        for task_id in task_ids:
            self._waiting.pop(task_id, None)
            self._there.discard(task_id)

    def mark_accepted(self, task_ids: Iterable[str]) -> None:
        """Record that the server has answered the submit of these tasks."""
        self._there.update(task_id for task_id in task_ids if task_id in self._waiting)

    def arrive(self, tasks: Iterable[RawTask]) -> None:
        """Accept ended tasks that the server pushed; who waits for one that can't be read is told so."""
        for task in tasks:
            if task.get("status") not in TERMINAL:
                self._refuse_odd(task)
            self._there.discard(task["id"])
            future = self._waiting.pop(task["id"], None)
            if future is not None and not future.done():
                future.set_result(task)

    def _refuse_odd(self, task: RawTask) -> None:
        try:
            with reading():
                raise ValueError(f"it tells of the end of a task that is {brief(task.get('status'))}")
        except ConnectionLost as error:
            self.refuse(task["id"], error)

    async def ask_again(self, ids: Iterable[str]) -> None:
        """Ask again for those of the tasks that are still waited for, because what was to push their ends is gone."""
        if wanted := [task_id for task_id in ids if task_id in self._waiting]:
            await self._ask_for(wanted)

    def miss(self, task_ids: Iterable[str]) -> list[str]:
        """Raise `TaskNotFound` in those who wait for tasks that are missing, except tasks that may still be submitted.

        Returns the tasks that nobody waits for any more.
        """
        missed = [task_id for task_id in task_ids if task_id in self._there or task_id not in self._waiting]
        for task_id in missed:
            self.refuse(task_id, TaskNotFound(problem_named("task-not-found", _MISSING.format(task_id))))
        return missed

    def fail(self, error: TreadleError) -> None:
        """Fail everyone who waits."""
        waiting, self._waiting = self._waiting, {}
        self._there.clear()
        for future in waiting.values():
            _set_error(future, error)

    def close(self) -> None:
        """Fail everyone who waits, because the client was closed."""
        self.fail(ConnectionFailed("the client was closed before the task ended"))

    async def _flush(self) -> None:
        ids, self._wanted = self._wanted, []
        await self._ask_for(ids)

    async def _ask_for(self, ids: list[str]) -> None:
        for start in range(0, len(ids), MOST_OF_REQUEST):
            part = ids[start : start + MOST_OF_REQUEST]
            try:
                await self._ask(part)
            except TreadleError as error:
                for task_id in part:
                    self.refuse(task_id, error)

    def refuse(self, task_id: str, error: TreadleError) -> None:
        """Raise `error` in those who wait for a task's end; does nothing if there are none."""
        self._there.discard(task_id)
        future = self._waiting.pop(task_id, None)
        if future is not None:
            _set_error(future, error)


def _set_error(future: asyncio.Future[RawTask], error: TreadleError) -> None:
    if not future.done():
        # Each is raised where it is waited for, so each gets a copy: a shared one would collect everybody's tracebacks.
        future.set_exception(copy(error))
        future.exception()  # Marked as retrieved: asyncio would warn if nobody waits for this future any more.


def receipts(answer: Any, number: int) -> list[RawTask]:
    """Return the receipts of a submit; raises `ConnectionLost` if there is not one for each of `number` tasks."""
    with reading():
        answers: list[RawTask] = answer["tasks"]
        is_complete = len(answers) == number and all(
            one.get("problem") or isinstance(one["id"], str) for one in answers
        )
    if not is_complete:
        raise ConnectionLost(
            f"the server's answer can't be read (expected {number} receipts, not {brief(answers)}): check that its"
            " version is compatible with this one"
        )
    return answers
