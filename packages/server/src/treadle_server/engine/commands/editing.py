"""Edits a waiting task: changes what its submit gave."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from treadle.wire.ids import TaskId
from treadle.wire.options import OF_JOB
from treadle.wire.status import WAITING, Status
from treadle.wire.transitions import Verb
from treadle_server.access.checks import check_content, check_control, check_task_scopes
from treadle_server.access.principal import Principal
from treadle_server.domain.encryption import check_words
from treadle_server.domain.life import check_version, wake
from treadle_server.domain.limits import Named, own_of
from treadle_server.domain.states import advance
from treadle_server.domain.tasks import Task, check_times
from treadle_server.engine.commands.base import OneRow, get_task
from treadle_server.engine.commands.dependants import apply_policy
from treadle_server.engine.commands.steps import wait_until
from treadle_server.engine.commands.submit import held_by, holder_of
from treadle_server.engine.naming import limits_of, note_limits
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import InvalidTaskTransition

_AS_GIVEN = (*(OF_JOB.keys() - {"pool", "heartbeat_increment"}), "payload", "tags", "scopes")
"""Changes that are copied to the task's field and have no other effect."""

_LIMITING = frozenset({"limits", "payload"})
"""What decides which limits a task counts against."""

_DUE = frozenset({"delay", "scheduled_at"})

_TIMES = _DUE | {"deadline"}

_SEALED = ("payload", "checkpoint")
"""What an edit may change that is encrypted in an encrypted task."""

_GUARDED = frozenset({"payload", "checkpoint", "pool"})
"""What decides which code gets the task's scopes, and what it does with them."""


@dataclass(slots=True, kw_only=True)
class Edit(OneRow):
    """Changes a task that does not run: anything that a submit gives, and its checkpoint.

    The checkpoint stays, and takes precedence over a changed payload, unless it is changed too.
    """

    principal: Principal
    task_id: TaskId
    changes: dict[str, Any]
    """Only the fields to be changed, validated in form; `payload`, `tags`, `scopes` and `checkpoint` are JSON text."""
    if_version: int | None = None

    def reads(self, reads: ReadSet) -> None:
        """Read the task with its job, its wait, its new target and lane, and the holder of its new unique key."""
        reads.tasks.add(self.task_id)
        reads.jobs_of.add(self.task_id)
        if (target := self.changes.get("target")) is not None:
            reads.target_edits.add((self.task_id, target))
        if (key := self.changes.get("unique_key")) is not None:
            reads.unique_edits.add((self.task_id, key))
        if self.changes.keys() & _LIMITING:
            reads.limit_edits.add(self.task_id)
            reads.limit_names.update((self.task_id, one["name"]) for one in self.changes.get("limits") or ())
        if "on_dependency_failure" in self.changes:
            reads.edges_of.add(self.task_id)
        if self.changes.keys() & _DUE:
            reads.steps.waits.add(self.task_id)
        if "pool" in self.changes:
            reads.pool_edits.add((self.task_id, self.changes["pool"]))

    def apply(self, work: UnitOfWork) -> Task:
        """Return the task; if the edit is refused, it is unchanged.

        Raises `TaskNotFound`, `Forbidden` (also for scopes that the caller does not hold), `TaskConflict` (it has
        changed since, or another task holds the unique key), `InvalidTaskTransition`, `LimitNotFound`, or
        `ValidationFailed` for a deadline before the task is due and for invalid limits.
        """
        task = get_task(work, self.task_id)
        # As in a submit, options that no call decides are ignored.
        fixed = work.rules.fixed(work.job_of(task))
        changes = {name: value for name, value in self.changes.items() if name not in fixed}
        if task.unmet is None:
            # The task has no dependencies, and so no policy.
            changes.pop("on_dependency_failure", None)
        due_at = self._due_at(work, task, changes)
        self._check(work, task, changes, due_at)
        own = changes["limits"] if "limits" in changes else own_of(task.limits)
        named = self._limits(work, task, changes, own)
        work.open(task)
        self._take(task, changes)
        if "pool" in changes:
            task.pool = changes["pool"]
            task.lane = work.lanes[work.job_of(task).lane_key(task.room, task.pool)].id
        if "target" in changes:
            self._retarget(work, task, changes["target"])
        if named is not None:
            note_limits(task, named, own)
        if "unique_key" in changes:
            work.rekey(task, changes["unique_key"])
        if due_at is not None:
            self._reschedule(work, task, due_at)
            wait_until(work, task, due_at)
        task.version += 1
        task.updated_at = work.now
        work.changed(task)
        if "on_dependency_failure" in changes and task.status is Status.BLOCKED and task.unmet:
            apply_policy(work, task)
        return task

    def _limits(
        self, work: UnitOfWork, task: Task, changes: dict[str, Any], own: list[dict[str, Any]] | None
    ) -> list[Named] | None:
        """Return the limits that the task is to count against, or None to leave them."""
        if not changes.keys() & _LIMITING:
            return None
        payload: str = changes.get("payload", task.payload)
        return limits_of(work, work.job_of(task), task.room, own, payload, task=task)

    def _due_at(self, work: UnitOfWork, task: Task, changes: dict[str, Any]) -> datetime | None:
        """Return when the task is to be due, or None to leave that."""
        delay: float | None = changes.get("delay")
        if delay is not None:
            return work.now + timedelta(seconds=delay)
        due_at: datetime | None = changes.get("scheduled_at")
        return due_at

    def _check(self, work: UnitOfWork, task: Task, changes: dict[str, Any], due_at: datetime | None) -> None:
        check_control(self.principal, task)
        if changes.keys() & _GUARDED:
            check_content(self.principal, task)
        if (scopes := changes.get("scopes")) is not None:
            check_task_scopes(self.principal, orjson.loads(scopes))
        check_version(task, self.if_version)
        if task.is_encrypted:
            check_words({name: changes.get(name) for name in _SEALED}, {})
        if task.status not in WAITING:
            raise InvalidTaskTransition(
                f"edit: the task is {task.status}; only scheduled, blocked and pending tasks can be edited"
            )
        if changes.keys() & _TIMES:
            check_times(due_at or task.due_at, changes.get("deadline", task.deadline), due="the task is due")
        if (key := changes.get("unique_key")) is not None:
            holder = holder_of(work, task.job_num, key)
            if holder is not None and holder.id != task.id:
                raise held_by(self.principal, holder)

    def _take(self, task: Task, changes: dict[str, Any]) -> None:
        lease, increment = task.lease_seconds, task.heartbeat_increment
        for name in (*_AS_GIVEN, "deadline", "checkpoint", "on_dependency_failure"):
            if name in changes:
                setattr(task, name, changes[name])
        if changes.get("heartbeat_increment") is not None:
            task.heartbeat_increment = changes["heartbeat_increment"]
        elif "heartbeat_increment" in changes or increment == lease:
            # As in a submit that gives none, it is as long as the lease.
            task.heartbeat_increment = task.lease_seconds

    def _retarget(self, work: UnitOfWork, task: Task, target: str | None) -> None:
        if task.target_num is not None:
            work.left_targets.add(task.target_num)
        task.target = target
        task.target_num = None if target is None else work.targets[task.room, target]
        task.blocked, task.parked = task.stands_in_line, False

    def _reschedule(self, work: UnitOfWork, task: Task, due_at: datetime) -> None:
        task.due_at = due_at
        if task.status is Status.BLOCKED:
            return
        to = Status.SCHEDULED if due_at > work.now else Status.PENDING
        if to is not task.status:
            task.status = advance(task.status, Verb.DEFER if to is Status.SCHEDULED else Verb.PROMOTE, to)
        task.next_retry_at = due_at if task.next_retry_at is not None and to is Status.SCHEDULED else None
        if to is Status.PENDING:
            wake(task)
