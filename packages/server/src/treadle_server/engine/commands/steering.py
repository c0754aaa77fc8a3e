"""What people do to tasks: cancel, pause, resume, resolve, rerun."""

from dataclasses import dataclass, field
from datetime import datetime

from treadle.wire.ids import TaskId
from treadle.wire.status import Reason, Status
from treadle.wire.transitions import Verb
from treadle_server.domain import life
from treadle_server.domain.states import advance
from treadle_server.domain.tasks import Hold, Run, Task
from treadle_server.engine.commands.base import OneRow, check_control, get_task
from treadle_server.engine.needs import Needs
from treadle_server.engine.principal import Principal
from treadle_server.engine.world import World
from treadle_server.errors import InvalidTaskTransition, Refused, TreadleError, ValidationFailed


def keep_hold(world: World, task: Task, taken_until: datetime | None, *, slot_only: bool = False) -> bool:
    """Let the run's code keep its target and slot until it has stopped, or its lease ends; return whether it does.

    `slot_only` lets the task's next run begin meanwhile, unless the task has a target. A lease that seems to be over
    already may only seem so, to a clock that was just set: the sweeper, which knows that, ends the hold.
    """
    if taken_until is None or task.worker_id is None or task.unfenced:
        return False
    key = (task.seq, task.run_id, task.worker_id)
    is_slot = slot_only and task.target_num is None
    world.add_hold(Hold(*key, task.target_num, task.weight, taken_until, task.id, task.lease_seconds, is_slot))
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
        function(before, world.now, is_undo=self.if_version is not None)
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
