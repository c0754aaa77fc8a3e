"""What a client does to tasks, queues and workers: cancel, pause, resume, rerun, resolve, edit, drain."""

from contextlib import suppress
from typing import Any, Unpack

from treadle.client.bulk_sealing import merged, split_by_encryption
from treadle.client.options import wire_edits
from treadle.client.requests import Requester, check_no_empty, job_path, path_part, task_of
from treadle.encryption.fields import SAID, keys_of, opened_step, sealed_message, sealed_words
from treadle.errors import ConnectionLost, Forbidden, InvalidTaskTransition, JobNotFound, TaskConflict
from treadle.ids import new_id, task_id_of
from treadle.transport.answers import read
from treadle.values import plain_request
from treadle.wire.bulk import BulkResult
from treadle.wire.ids import GivenId
from treadle.wire.jobs import JobItem
from treadle.wire.options import TaskEdits
from treadle.wire.steps import MessageItem, StepItem
from treadle.wire.tasks import TaskItem
from treadle.wire.transitions import LEADS_TO, Action
from treadle.wire.workers import WorkerItem

_RUNS_AGAIN = frozenset[Action]({"resume", "rerun"})
"""Verbs that are not safe to repeat: by the time that the answer turns out to be lost, the task may have run and
ended."""


class Steering(Requester):
    """The part of `Client` that changes tasks. Every method may raise `ConnectionFailed` and a `ProblemError`."""

    async def get(self, task_id: GivenId) -> TaskItem:
        """Return a task as it is now; raises `TaskNotFound`."""
        return task_of(self.sealer, await self.call("get", {"id": task_id_of(task_id)}))

    async def cancel(self, task_id: GivenId, *, if_version: int | None = None) -> TaskItem:
        """Cancel a task, at once, and return its new state.

        Raises `TaskNotFound`, `InvalidTaskTransition` when it has ended, and `TaskConflict` when `if_version` is given
        and no longer the task's.
        """
        return await self._act(task_id, "cancel", if_version=if_version)

    async def pause(self, task_id: GivenId, *, if_version: int | None = None) -> TaskItem:
        """Pause a task; a running one is paused once its worker has stopped the code. Raises as `cancel` does."""
        return await self._act(task_id, "pause", if_version=if_version)

    async def resume(self, task_id: GivenId, *, if_version: int | None = None) -> TaskItem:
        """Let a paused or failed task go on from its checkpoint.

        Raises as `cancel` does; also `InvalidTaskTransition` when another open task holds its unique key.
        """
        return await self._act(task_id, "resume", if_version=if_version)

    async def rerun(self, task_id: GivenId, *, from_step: str | None = None, if_version: int | None = None) -> TaskItem:
        """Run an ended task again from its start: without its steps, messages and checkpoint.

        With `from_step`, the first step of that name and all that were kept after it are discarded and done again;
        those before it stay, and messages that a discarded step had received are received again. With `if_version` a
        cancel is undone: then all steps stay. Raises as `resume` does, and `ValidationFailed` when the task has kept no
        such step.
        """
        return await self._act(task_id, "rerun", from_step=from_step, if_version=if_version)

    async def send(self, task_id: GivenId, name: str, data: Any = None, *, id: GivenId | None = None) -> MessageItem:  # noqa: A002
        """Send a task a message (JSON) for `ctx.receive(name)`; a task that waits for it goes on.

        Messages to one task with the same name and `id` are one message; by default a new id is generated. For an
        encrypted task the data is encrypted, which needs the keys. Raises `TaskNotFound`, `Forbidden`,
        `InvalidTaskTransition` when the task has ended, `TaskConflict` when the id was sent with other data,
        `TooManyRequests` when too many messages wait, and `ValidationFailed` for data that is too large or not
        encrypted.
        """
        body = {**plain_request("send", {"data": data}), "id": id or new_id()}
        if data is not None and self.sealer.has_codec and (await self.get(task_id)).encrypted:
            body = sealed_message(self.sealer, task_id_of(task_id), name, body)
        sent = {"task_id": task_id_of(task_id), "name": name, **body}
        return read(MessageItem, await self.call("send", sent, resend=True))

    async def steps(self, task_id: GivenId) -> list[StepItem]:
        """Return the steps that a task has kept, in the order in which they were kept; raises `TaskNotFound`."""
        path = f"/v1/tasks/{task_id_of(task_id)}/steps"
        return [step async for step in self._list(StepItem, path, None, 0, opened=opened_step)]

    async def resolve(
        self,
        task_id: GivenId,
        *,
        status: str = "completed",
        result: Any = None,
        error: str | None = None,
        if_version: int | None = None,
    ) -> TaskItem:
        """Settle a paused or failed task by hand: `completed` with a `result`, `failed` with an `error`, `cancelled`.

        For an encrypted task the result or error is encrypted, which needs the keys. Raises as `cancel` does, and
        `ValidationFailed` for any other status, and for a value that should be encrypted and is not.
        """
        said = await self._sealed(task_id, {"result": result, "error": error})
        return await self._act(task_id, "resolve", status=status, if_version=if_version, **said)

    async def edit(
        self, /, task_id: GivenId, *, if_version: int | None = None, **changes: Unpack[TaskEdits]
    ) -> TaskItem:
        """Change a task that is not running yet: its payload, its checkpoint, and every option of `Options` but the id.

        None removes what a task may lack, such as `timeout`, `target` or `unique_key`. The payload and checkpoint of an
        encrypted task are encrypted, which needs the keys; only its worker checks them against the schema. Raises
        `TaskNotFound`; `InvalidTaskTransition` when it is claimed or has ended; `TaskConflict` because of `if_version`,
        or when another task holds the unique key; `Forbidden`, also for scopes that the token lacks;
        `ValidationFailed`; and, for the payload of an encrypted task, `InvalidArguments` as `submit` does.
        """
        said = await self._sealed(task_id, wire_edits(changes))
        body = {"id": task_id_of(task_id), **said, **({} if if_version is None else {"if_version": if_version})}
        return task_of(self.sealer, await self.call("edit", body, resend=if_version is None))

    async def act(self, /, action: Action, **which: Any) -> BulkResult:
        """Apply one verb to many tasks, given as `ids=[…]` or `filter={…}`; see `BulkAction`.

        The answer says what became of each task, refusals included. If this client has keys, a `result` or `error` is
        encrypted for encrypted tasks; it first asks which of them are. Raises `InvalidArguments` for a filter with an
        empty value.
        """
        wanted = plain_request("actions", {"filter": which.get("filter")})["filter"]
        if isinstance(wanted, dict):
            check_no_empty(wanted)
        if not self.sealer.has_codec or all(which.get(name) is None for name in SAID):
            return await self._act_on_many(action, which)
        results = [await self._act_on_many(action, part) for part in await split_by_encryption(self, which)]
        return merged(action, results)

    async def pause_queue(self, full_name: str) -> JobItem:
        """Pause a queue, given by its job's full name: nothing is claimed from it. Raises `JobNotFound`."""
        return read(JobItem, await self.call("job", {"job": full_name, "paused": True}))

    async def resume_queue(self, full_name: str) -> JobItem:
        """Let a paused queue go on; raises `JobNotFound`."""
        return read(JobItem, await self.call("job", {"job": full_name, "paused": False}))

    async def drain_worker(self, worker_id: GivenId) -> WorkerItem:
        """Ask a worker to claim no more, finish its tasks within its grace, hand back the rest, and exit.

        It is told at once, or with its next heartbeat. Raises `WorkerNotFound`, also for a lost worker, and `Forbidden`
        for another user's.
        """
        return read(WorkerItem, await self.request("POST", f"/v1/workers/{path_part(worker_id)}/drain"))

    async def _act_on_many(self, action: Action, which: dict[str, Any]) -> BulkResult:
        return read(BulkResult, await self.call("actions", {"action": action, **which}, resend=False))

    async def _sealed(self, task_id: GivenId, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields, encrypted if the task is, which is only asked for if this client has keys."""
        if not self.sealer.has_codec or all(fields.get(name) is None for name in SAID):
            return fields
        task = await self.call("get", {"id": task_id_of(task_id)})
        if not task.get("encrypted"):
            return fields
        keys: list[str | None] = []
        if fields.get("payload") is not None:
            # If the job may not be read, the server itself reports that a limit's key is missing.
            with suppress(JobNotFound, Forbidden):
                path = job_path(task["job_name"], task["room_id"])
                keys = keys_of(read(JobItem, await self.request("GET", path)))
        return sealed_words(self.sealer, plain_request("edit", fields), keys)

    async def _act(self, task_id: GivenId, action: Action, **fields: Any) -> TaskItem:
        given = {name: value for name, value in fields.items() if value is not None}
        body = {"id": task_id_of(task_id), "action": action, **given}
        # Read before acting, because sending a version would make a rerun undo a cancel.
        before = await self.get(task_id) if action in _RUNS_AGAIN and "if_version" not in given else None
        try:
            return task_of(self.sealer, await self.call("action", body, resend=False))
        except ConnectionLost:
            if before is not None and (item := await self.get(task_id)).version != before.version:
                if item.status in LEADS_TO[action] or item.run_id != before.run_id:
                    return item
                raise
            return await self._act_again(task_id, action, body)

    async def _act_again(self, task_id: GivenId, action: Action, body: dict[str, Any]) -> TaskItem:
        """Repeat a verb whose answer was lost; if the first attempt explains a refusal, it is not an error."""
        try:
            return task_of(self.sealer, await self.call("action", body, resend=False))
        except (InvalidTaskTransition, TaskConflict):
            item = await self.get(task_id)
            if item.status in LEADS_TO[action]:
                return item
            raise
