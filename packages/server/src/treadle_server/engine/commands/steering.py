"""What people do to tasks: cancel, pause, resume, resolve, rerun, edit."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from treadle.wire.ids import TaskId
from treadle.wire.status import Reason, Status
from treadle_server.access.checks import check_content
from treadle_server.domain import life
from treadle_server.domain.states import Verb, advance
from treadle_server.domain.tasks import Hold, Run, Task
from treadle_server.engine.commands.base import OneRow, check_control, get_task
from treadle_server.engine.needs import Needs
from treadle_server.engine.principal import Principal
from treadle_server.engine.world import World
from treadle_server.errors import InvalidTaskTransition, Refused, TreadleError, ValidationFailed


def keep_hold(world: World, task: Task, taken_until: datetime | None) -> bool:
    """Let the run's code keep its target and slot until it has stopped, or its lease ends; return whether it does."""
    if taken_until is None or task.worker_id is None or task.unfenced or taken_until <= world.now:
        return False
    key = (task.seq, task.run_id, task.worker_id)
    world.add_hold(Hold(*key, task.target_num, task.weight, taken_until, task.id, task.lease_seconds))
    return True


def cancel_task(world: World, task: Task, reason: Reason = Reason.CANCELLED) -> Task:
    """Cancel the task at once; what runs keeps its hold until it has stopped. Raises `InvalidTaskTransition`."""
    advance(task.status, Verb.CANCEL, Status.CANCELLED)
    until = task.taken_until
    world.open(task)
    run = life.cancel(task, world.now, reason)
    _close(world, task, run, until)
    return task


def expire_task(world: World, task: Task) -> None:
    """Fail the task whose deadline has passed; what runs keeps its hold until it has stopped."""
    until = task.taken_until
    world.open(task)
    run = life.miss_deadline(task, world.now)
    _close(world, task, run, until)


def _close(world: World, task: Task, run: Run | None, until: datetime | None) -> None:
    if run is not None:
        world.add_run(task, run, code_ended=False)
        keep_hold(world, task, until)
    world.changed(task)
    world.maybe_orphan(task.job_num)


@dataclass(slots=True, kw_only=True)
class Steer(OneRow):
    """One verb for one task."""

    principal: Principal
    task_id: TaskId
    action: str
    if_version: int | None = None
    to: Status | None = None
    """For resolve: completed, failed or cancelled."""
    result: str | None = None
    error: str | None = None

    def needs(self, needs: Needs) -> None:
        """Read the task."""
        needs.tasks.add(self.task_id)
        needs.jobs_of.add(self.task_id)

    def apply(self, world: World) -> Task:
        """Return the task after it.

        Raises `TaskNotFound`, `Forbidden`, `TaskConflict` (it was changed since `if_version`), or
        `InvalidTaskTransition`.
        """
        task = get_task(world, self.task_id)
        check_control(self.principal, task)
        life.check_version(task, self.if_version)
        match self.action:
            case "cancel":
                return cancel_task(world, task)
            case "pause":
                self._pause(world, task)
            case "resume" | "rerun":
                self._again(world, task)
            case "resolve":
                self._resolve(world, task)
            case _:
                raise ValidationFailed(f"{self.action!r} is no action: use cancel, pause, resume, resolve or rerun")
        return task

    def _pause(self, world: World, task: Task) -> None:
        if not task.is_leased:
            advance(task.status, Verb.PAUSE, Status.PAUSED)
        elif task.cancel_requested:
            return
        world.open(task)
        life.pause(task, world.now)
        world.changed(task)

    def _again(self, world: World, task: Task) -> None:
        job = world.job_of(task)
        if job.deleted_at is not None:
            raise InvalidTaskTransition(f"{job.full_name} is deleted: register it again before its tasks can run")
        if task.unique_key is not None and task.completed_at is not None:
            other = world.unique.get((task.job_num, task.unique_key))
            if other is not None and other.id != task.id:
                raise InvalidTaskTransition(f"task {other.id} holds the unique key {task.unique_key!r} now")
        verb, function = (Verb.RESUME, life.resume) if self.action == "resume" else (Verb.RERUN, life.rerun)
        advance(task.status, verb, Status.PENDING)
        before = world.open(task)
        function(before, world.now)
        task.blocked = task.target_num is not None
        world.changed(task)

    def _resolve(self, world: World, task: Task) -> None:
        to = self.to or Status.COMPLETED
        advance(task.status, Verb.RESOLVE, to)
        world.open(task)
        run = life.resolve(task, to, self.result, self.error, world.now)
        world.add_run(task, run, code_ended=True)
        world.changed(task)
        world.maybe_orphan(task.job_num)


@dataclass(slots=True, kw_only=True)
class SteerMany:
    """One verb for many tasks, each with its own answer."""

    principal: Principal
    action: str
    ids: list[TaskId]
    if_versions: dict[TaskId, int] = field(default_factory=dict)
    to: Status | None = None
    result: str | None = None
    error: str | None = None

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return len(self.ids)

    def needs(self, needs: Needs) -> None:
        """Read the tasks."""
        needs.tasks.update(self.ids)
        needs.jobs_of.update(self.ids)

    def apply(self, world: World) -> list[tuple[TaskId, Task | TreadleError]]:
        """Return for each id the task, or why nothing was done to it."""
        answers: list[tuple[TaskId, Task | TreadleError]] = []
        for task_id in self.ids:
            one = Steer(
                principal=self.principal,
                task_id=task_id,
                action=self.action,
                if_version=self.if_versions.get(task_id),
                to=self.to,
                result=self.result,
                error=self.error,
            )
            try:
                answers.append((task_id, one.apply(world)))
            except Refused as refusal:
                answers.append((task_id, refusal))
        return answers


@dataclass(slots=True, kw_only=True)
class Edit(OneRow):
    """Changes a task that does not run: priority, scheduled_at, payload, tags, target, weight, checkpoint.

    A checkpoint stays, and outranks a changed payload, unless it is changed too.
    """

    principal: Principal
    task_id: TaskId
    changes: dict[str, Any]
    """Only what is to be changed; `payload`, `tags` and `checkpoint` as JSON text."""
    if_version: int | None = None

    def needs(self, needs: Needs) -> None:
        """Read the task and the target that it is moved to."""
        needs.tasks.add(self.task_id)
        if (target := self.changes.get("target")) is not None:
            needs.target_edits.add((self.task_id, target))

    def apply(self, world: World) -> Task:
        """Return the task. Raises `TaskNotFound`, `Forbidden`, `TaskConflict` or `InvalidTaskTransition`."""
        task = get_task(world, self.task_id)
        check_control(self.principal, task)
        if "payload" in self.changes or "checkpoint" in self.changes:
            check_content(self.principal, task)
        life.check_version(task, self.if_version)
        if task.status not in {Status.SCHEDULED, Status.PENDING}:
            raise InvalidTaskTransition(
                f"edit: the task is {task.status}; only a scheduled or pending one can be changed"
            )
        world.open(task)
        for name in ("priority", "payload", "tags", "weight", "checkpoint"):
            if name in self.changes:
                setattr(task, name, self.changes[name])
        if "target" in self.changes:
            self._retarget(world, task)
        if (due_at := self.changes.get("scheduled_at")) is not None:
            self._reschedule(world, task, due_at)
        task.version += 1
        task.updated_at = world.now
        world.changed(task)
        return task

    def _retarget(self, world: World, task: Task) -> None:
        if task.target_num is not None:
            world.left_targets.add(task.target_num)
        task.target = self.changes["target"]
        task.target_num = None if task.target is None else world.targets[task.room, task.target]
        task.blocked = task.target is not None

    def _reschedule(self, world: World, task: Task, due_at: datetime) -> None:
        task.due_at = due_at
        to = Status.SCHEDULED if due_at > world.now else Status.PENDING
        if to is not task.status:
            task.status = advance(task.status, Verb.DEFER if to is Status.SCHEDULED else Verb.PROMOTE, to)
        task.next_retry_at = due_at if task.next_retry_at is not None and to is Status.SCHEDULED else None
