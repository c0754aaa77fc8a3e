"""Requests for single tasks: to read or export them, edit them, submit copies, or send them messages."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treadle.encryption.fields import keys_of, opened_task, sealed_message, sealed_words
from treadle.errors import InvalidArguments, NoCodec, TaskNotFound
from treadle.transport.answers import read, reading
from treadle.values import plain_request
from treadle.wire.bulk import Frozen
from treadle.wire.filters import TaskFilter
from treadle.wire.status import WAITING
from treadle.wire.steps import MessageItem, StepItem
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.format import short_id
from treadle_tui.core.draw.text import clean
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.state.model import Model
from treadle_tui.core.verbs.editor import Changes, copy_of, former
from treadle_tui.core.verbs.executor import FAILURES, Executor, not_done
from treadle_tui.core.verbs.messages import Draft
from treadle_tui.core.verbs.plan import Ask, Report

AT_ONCE = 100
"""How many tasks are requested concurrently."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Complete tasks, and how many no longer existed."""

    tasks: list[TaskItem]
    gone: int = 0


class TaskRequests:
    """Loads complete tasks from the server, and sends back what the user changed."""

    def __init__(self, model: Model, feed: Feed, executor: Executor) -> None:
        self._model = model
        self._feed = feed
        self._executor = executor

    async def freeze(self, wanted: TaskFilter, order: str) -> Frozen:
        """Return the tasks that match a filter at this moment, 10,000 at most.

        Raises `ProblemError` or `ConnectionFailed`.
        """
        chosen = wanted.model_dump(mode="json", exclude_none=True)
        return read(Frozen, await self._feed.request("freeze", filter=chosen, order=order))

    async def fetch(self, key: str) -> TaskItem:
        """Return the complete task as it is now. Raises `ProblemError` or `ConnectionFailed`."""
        answer = await self._feed.request("get", id=key)
        with reading():
            return TaskItem.model_validate(opened_task(self._model.sealer, answer))

    async def gather(self, keys: Sequence[str]) -> Gathered:
        """Return the complete tasks in this order, and the number of those that no longer exist.

        Raises `ProblemError` or `ConnectionFailed`.
        """
        found: list[TaskItem | None] = []
        for first in range(0, len(keys), AT_ONCE):
            portion = keys[first : first + AT_ONCE]
            found += await asyncio.gather(*(self._fetch_if_there(key) for key in portion))
        tasks = [task for task in found if task is not None]
        return Gathered(tasks, gone=len(found) - len(tasks))

    async def _fetch_if_there(self, key: str) -> TaskItem | None:
        try:
            return await self.fetch(key)
        except TaskNotFound:
            return None

    async def receiver(self, key: str) -> tuple[TaskItem, StepItem | None]:
        """Return a task and its last kept step. Raises `ProblemError` or `ConnectionFailed`."""
        task = await self.fetch(key)
        if not task.steps:
            return task, None
        answer = await self._feed.request("steps", id=key, offset=task.steps - 1)
        # A rerun may have cleared the steps meanwhile.
        with reading():
            return task, StepItem.model_validate(answer["items"][-1]) if answer["items"] else None

    async def send(self, task: TaskItem, draft: Draft) -> Report:
        """Send a message to a task; the draft must be valid."""
        refusal = self._executor.off()
        if refusal is not None:
            return refusal.report
        self._executor.forget()
        name, data = draft.read()
        try:
            message = {**plain_request("send", {"data": data}), "id": draft.id}
            if task.encrypted:
                message = sealed_message(self._model.sealer, task.id, name, message)
            answer = read(MessageItem, await self._feed.request("send", task_id=task.id, name=name, **message))
        except (*FAILURES, NoCodec, InvalidArguments) as error:
            return not_done("send", error)
        then = "received" if answer.received else "it waits until the task receives it"
        return Report(f"sent {clean(name, limit=100)} to {short_id(task.id)}: {then}", ok=True)

    async def save(self, task: TaskItem, changes: Changes, *, copy_id: str) -> Report:
        """Edit a waiting task, or submit an edited copy of an ended one; either can be undone for five seconds."""
        refusal = self._executor.off()
        if refusal is not None:
            return refusal.report
        self._executor.forget()
        try:
            return await (self._edit(task, changes) if task.status in WAITING else self._copy(task, changes, copy_id))
        except (*FAILURES, NoCodec, InvalidArguments) as error:
            return not_done("save", error)

    async def _edit(self, task: TaskItem, changes: Changes) -> Report:
        answer = await self._feed.request("edit", id=task.id, if_version=task.version, **self._sealed(task, changes))
        back: dict[str, Any] = {"id": task.id, "if_version": read(TaskItem, answer).version}
        back |= self._sealed(task, former(task, changes))
        self._executor.remember("reverted the edit", Ask("edit", back))
        return Report(f"changed {', '.join(changes)} of {short_id(task.id)}", ok=True)

    async def _copy(self, task: TaskItem, changes: Changes, copy_id: str) -> Report:
        copy = {"id": copy_id, **self._sealed(task, copy_of(task, changes))}
        answer = await self._feed.request("submit", room=task.room_id, tasks=[copy])
        with reading():
            new = TaskItem.model_validate(answer["tasks"][0])
        cancel = {"action": "cancel", "ids": [new.id], "if_versions": {new.id: new.version}}
        self._executor.remember("cancelled", Ask("actions", cancel))
        return Report(
            f"submitted {short_id(new.id)}, a copy of {short_id(task.id)} with changed {', '.join(changes)}", ok=True
        )

    def _sealed(self, task: TaskItem, said: dict[str, Any]) -> dict[str, Any]:
        """Return these fields of a task, encrypted if the task is. Raises `NoCodec` and `InvalidArguments`."""
        if not task.encrypted:
            return said
        row = self._model.queue_rows().get(task.job_name)
        return sealed_words(self._model.sealer, said, () if row is None else keys_of(row.job))
