"""The handle of a submitted task: wait for its result, look at it, steer it."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, Unpack

from treadle import tracing
from treadle.client.bound import Readable
from treadle.client.following import Following, too_late
from treadle.client.options import duration
from treadle.client.requests import task_of
from treadle.client.results import RawTask
from treadle.errors import InvalidArguments, TaskCancelled, TaskFailed, TaskNotFound, TreadleError
from treadle.ids import id_text
from treadle.transport.answers import read, reading
from treadle.values import brief
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.ids import GivenId, TaskId
from treadle.wire.options import TaskEdits
from treadle.wire.runs import LogItem
from treadle.wire.sealed import seal_of, shown
from treadle.wire.status import TERMINAL, Status
from treadle.wire.steps import MessageItem, StepItem
from treadle.wire.tasks import Receipt, RunItem, TaskItem

if TYPE_CHECKING:
    from treadle.client.client import Client

R_co = TypeVar("R_co", covariant=True)


class TaskHandle(Generic[R_co]):
    """A submitted task: wait for its result, look at it, steer it."""

    def __init__(
        self,
        client: "Client",
        task_id: GivenId,
        *,
        returns: Readable | None = None,
        submitted: RawTask | None = None,
        ending: "asyncio.Future[RawTask] | None" = None,
        item: "Mapping[str, Any] | None" = None,
        is_coming: bool = False,
    ) -> None:
        self.id: TaskId = TaskId(id_text(task_id))
        self._client = client
        self._returns = returns
        self._submitted = submitted
        self._ending = ending
        self._item = item
        """The item that was sent to the server, when this handle came from a submit."""
        self._is_coming = is_coming

    def __repr__(self) -> str:
        return f"<TaskHandle {self.id}>"

    def __getstate__(self) -> Never:
        raise TypeError(
            "a handle can't be sent to another process, because it has a connection: send its id, and use"
            " client.handle(id)"
        )

    @property
    def client(self) -> "Client":
        """The client whose requests this handle makes."""
        return self._client

    @property
    def submitted(self) -> Receipt | None:
        """The server's answer to the submit; None for a handle made from an id."""
        return None if self._submitted is None else read(Receipt, self._submitted)

    async def result(self, timeout: float | timedelta | None = None) -> R_co:  # noqa: ASYNC109 - part of the API
        """Wait for the task to end, up to `timeout` (seconds or a timedelta; None: for ever), and return its result.

        With a timeout of 0 the server is asked once whether the task has ended.

        The result has the type that the task function is annotated with; raw submits return JSON. Raises `WaitTimeout`;
        `TaskFailed` and `TaskCancelled`; `TaskNotFound`, unless the handle is from `Client.expect`; `ConnectionFailed`
        when the server stays unreachable; `InvalidArguments` for an invalid timeout; and, for the result of an
        encrypted task, `NoCodec` and `CantDecrypt`.
        """
        with tracing.awaiting(self._item):
            return self._unpack(await self._wait(timeout))

    async def wait(self, timeout: float | timedelta | None = None) -> TaskItem:  # noqa: ASYNC109
        """Wait for the task to end, whatever its outcome, and return its final state.

        Raises as `result` does, except `TaskFailed` and `TaskCancelled`.
        """
        return task_of(self._client.sealer, await self._wait(timeout))

    async def follow(self, timeout: float | timedelta | None = None) -> AsyncGenerator[TaskItem]:  # noqa: ASYNC109
        """Yield the task as it is now, and again after each change, until it has ended.

        Changes are those of its status, its place in the queue, its progress and so on; of several within a tenth of a
        second only the last is yielded. With a timeout of 0 only the task as it is now is yielded. Raises as `wait`
        does.
        """
        following = self._following(timeout)
        try:
            while (task := await following.next()) is not None:
                yield task
        finally:
            following.end()

    async def get(self) -> TaskItem:
        """Return the task as it is now; raises `TaskNotFound`."""
        return await self._client.get(self.id)

    async def status(self) -> Status:
        """Return the task's status."""
        return (await self.get()).status

    async def runs(self) -> list[RunItem]:
        """Return the attempts at the task, oldest first."""
        return await self._client.runs(self.id)

    async def logs(self) -> list[LogItem]:
        """Return the last 1,000 lines that the task's code logged, oldest first."""
        return await self._client.logs(self.id)

    async def artifacts(self) -> list[ArtifactItem]:
        """Return the files that the task's runs have stored, those of the last run first."""
        return await self._client.artifacts(self.id)

    async def download(self, name: str, to: str | os.PathLike[str], *, run: int | None = None) -> Path:
        """Save an artifact of `run`, or of the last run that has it, to a file or into a directory; return its path.

        Raises as `Client.download` does.
        """
        return await self._client.download(self.id, name, to, run=run)

    async def cancel(self) -> TaskItem:
        """Cancel the task; raises `InvalidTaskTransition` when it has ended."""
        return await self._client.cancel(self.id)

    async def pause(self) -> TaskItem:
        """Pause the task: a running one stops and keeps its checkpoint. Raises as `Client.pause` does."""
        return await self._client.pause(self.id)

    async def resume(self) -> TaskItem:
        """Let a paused or failed task go on from its checkpoint; raises as `Client.resume` does."""
        self._ending = None
        return await self._client.resume(self.id)

    async def rerun(self, *, from_step: str | None = None) -> TaskItem:
        """Run an ended task again from its start, or from a step on; raises as `Client.rerun` does."""
        self._ending = None
        return await self._client.rerun(self.id, from_step=from_step)

    async def send(self, name: str, data: Any = None, *, id: str | None = None) -> MessageItem:  # noqa: A002
        """Send the task a message (JSON) for `ctx.receive(name)`; sent twice with one `id`, it arrives once.

        Raises as `Client.send` does.
        """
        return await self._client.send(self.id, name, data, id=id)

    async def steps(self) -> list[StepItem]:
        """Return the steps that the task keeps."""
        return await self._client.steps(self.id)

    async def edit(self, *, if_version: int | None = None, **changes: Unpack[TaskEdits]) -> TaskItem:
        """Change the task while it waits; like `Client.edit`."""
        return await self._client.edit(self.id, if_version=if_version, **changes)

    async def _wait(self, timeout: float | timedelta | None) -> RawTask:  # noqa: ASYNC109
        return await self._client.run(self._end(limit_of(timeout)))

    def _following(self, timeout: float | timedelta | None) -> Following:
        limit, client = limit_of(timeout), self._client
        return Following(client.opening, client.sealer, self.id, is_coming=self._is_coming, timeout=limit)

    async def _end(self, timeout: float | None) -> RawTask:  # noqa: ASYNC109
        if self._ending is None or _is_of_before(self._ending):
            if timeout == 0:
                return await self._end_by_now(timeout)
            self._ending = self._client.ending(self.id, is_coming=self._is_coming)
        try:
            async with asyncio.timeout(timeout):
                ended = await asyncio.shield(self._ending)
        except TimeoutError:
            raise too_late(self.id, timeout) from None
        except TreadleError:
            # The next wait asks again: the server may be back by then, or the client open once more.
            self._ending = None
            raise
        if ended["status"] != Status.COMPLETED:
            # Anyone may resume, resolve or rerun it, so the next wait asks again.
            self._ending = None
        return ended

    async def _end_by_now(self, timeout: float) -> RawTask:  # noqa: ASYNC109
        try:
            task: RawTask = await self._client.call("get", {"id": self.id})
        except TaskNotFound:
            if self._is_coming:
                raise too_late(self.id, timeout) from None
            raise
        with reading():
            has_ended = task["status"] in TERMINAL
        if not has_ended:
            raise too_late(self.id, timeout)
        return task

    def _unpack(self, task: RawTask) -> R_co:
        status = task["status"]
        if status == Status.COMPLETED:
            result = task.get("result")
            opened: Any = self._client.sealer.open_sealed(result) if self._is_encrypted(task) else result
            return opened if self._returns is None else self._returns.read(opened)  # type: ignore[no-any-return]
        item = task_of(self._client.sealer, task)
        error = shown(item.error) if item.encrypted and item.error else item.error
        if status == Status.CANCELLED:
            raise TaskCancelled(f"task {self.id} was cancelled{f': {error}' if error else ''}", item)
        raise TaskFailed(f"task {self.id} failed ({item.reason or 'error'}): {error or 'no error message'}", item)

    def _is_encrypted(self, task: RawTask) -> bool:
        """Return whether the task is encrypted; if it was submitted encrypted, the server can't claim otherwise."""
        item = self._item
        # A unique key may have led to an older task.
        is_own = item is not None and item.get("id") == self.id
        return bool(task.get("encrypted")) or (is_own and item is not None and seal_of(item["payload"]) is not None)


def limit_of(timeout: float | timedelta | None) -> float | None:
    """Return a timeout in seconds, None for no limit; a time that is over counts as 0.

    Raises `InvalidArguments` for an invalid duration.
    """
    limit = duration(timeout)
    if timeout is None or limit == inf:
        return None
    if limit is None:
        raise InvalidArguments(f"timeout={brief(timeout)} is not a duration: give a number of seconds, or a timedelta")
    return max(0.0, limit)


def _is_of_before(ending: "asyncio.Future[RawTask]") -> bool:
    """Return whether this future is stale: its client was closed, or is now open in another loop or process."""
    if ending.done():
        return ending.cancelled() or ending.exception() is not None
    return ending.get_loop() is not asyncio.get_running_loop()
