"""Access checks, each in one place: for the routes, and for the commands, which know the row."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

import orjson

from treadle.wire.names import INTERNAL, SHARED_ROOMS
from treadle_server.access import rights
from treadle_server.access.principal import Principal
from treadle_server.domain.flows import Flow
from treadle_server.domain.jobs import Job, Worker
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import OwnWorkers, Visibility
from treadle_server.errors import Forbidden, ScheduleNotFound, TaskNotFound, no_job


def needs_scope(principal: Principal, scope: str) -> None:
    """Raise `Forbidden`, naming the scope, unless the principal holds it or a wider one."""
    if not principal.may(scope):
        raise _lacking(principal, scope)


def _lacking(principal: Principal, scope: str) -> Forbidden:
    """Return the error for a missing scope; a run's credential has the scopes that its task was submitted with."""
    if principal.run is None:
        return Forbidden(f"the token lacks the scope {scope[:400]}")
    return Forbidden(f"the run's credential lacks the scope {scope[:400]}: submit the task with it among its scopes")


def visibility_of(principal: Principal) -> Visibility | None:
    """Return which rooms the principal may read; None: all."""
    return _named(principal, rights.READ)


def own_workers(principal: Principal) -> OwnWorkers | None:
    """Return which workers are the principal's own, as `is_own` does for one worker; None if none are."""
    if principal.run is not None:
        return None
    return OwnWorkers(principal.user, _named(principal, rights.WORKER_ID))


def _named(principal: Principal, kind: str) -> Visibility | None:
    """Return what the principal's scopes of a kind name; None: everything."""
    return None if principal.superuser or principal.scopes is None else _named_by(principal.scopes, kind)


@lru_cache(maxsize=10_000)
def _named_by(scopes: frozenset[str], kind: str) -> Visibility | None:
    names: set[str] = set()
    prefixes: set[str] = set()
    for scope in scopes:
        start = scope.removesuffix("*")
        if scope != start and kind.startswith(start):
            return None
        if scope.startswith(kind):
            (names if scope == start else prefixes).add(start.removeprefix(kind))
    return Visibility(frozenset(names), tuple(sorted(prefixes)))


def is_reader(principal: Principal) -> bool:
    """Return whether the principal may only read: none of its scopes that Treadle knows allows a change."""
    return not principal.superuser and principal.scopes is not None and not any(map(_writes, principal.scopes))


_WRITES = (rights.REGISTER, rights.CREATE, rights.CLAIM_WORK, rights.WORKER_ID, rights.CONTROL, rights.CLAIM_TASK)


def _writes(scope: str) -> bool:
    start = scope.removesuffix("*")
    return any(scope.startswith(kind) or (scope != start and kind.startswith(start)) for kind in _WRITES)


# Jobs


def check_register(principal: Principal, room: str) -> None:
    """Raise `Forbidden` unless the principal may register, and so serve, jobs in the room."""
    if room == INTERNAL and not principal.superuser:
        raise Forbidden(f"only a superuser may register jobs in {room}; use a room of your own")
    if room in SHARED_ROOMS and not principal.may(rights.REGISTER + room):
        raise Forbidden(
            f"{room} is shared: only a superuser may register and serve jobs there; use a room of your own, or ask"
            f" for the scope {rights.REGISTER}{room}"
        )
    needs_scope(principal, rights.REGISTER + room)


def check_queue(principal: Principal, job: Job, room: str) -> None:
    """Raise `Forbidden` unless the principal may pause the job's queue, or `JobNotFound` if it may not see the job.

    `room` is the room from which the job was looked up.
    """
    if principal.superuser or principal.may(rights.CONTROL + job.room):
        return
    if principal.scopes is None and job.room not in SHARED_ROOMS:
        return
    visibility = visibility_of(principal)
    if visibility is not None and not visibility.admits_job(job.room):
        raise no_job(job.full_name, room)
    if job.room in SHARED_ROOMS:
        raise Forbidden(
            f"only a superuser, or a token with the scope {rights.CONTROL}{job.room}, may pause queues of {job.room}"
        )
    raise _lacking(principal, rights.CONTROL + job.room)


def check_schema(principal: Principal, job: Job) -> None:
    """Raise `Forbidden` unless the principal may replace or widen the job's schema."""
    if principal.superuser or principal.may(rights.CONTROL + job.room):
        return
    if principal.run is None and principal.user == job.owner:
        return
    whose = "an unknown user" if job.owner is None else f"{job.owner!r}"
    raise Forbidden(
        f"the schema of {job.full_name} was registered by {whose}: only they, a superuser, or a token with the"
        f" scope {rights.CONTROL}{job.room} may replace it"
    )


# Tasks


def check_create(principal: Principal, room: str, job_names: Iterable[str]) -> None:
    """Raise `Forbidden` unless the principal may submit tasks of all these jobs (full names) from the room."""
    if not principal.superuser:
        for name in job_names:
            needs_scope(principal, rights.create_task(room, name))


def check_task_scopes(principal: Principal, scopes: Iterable[str]) -> None:
    """Raise `Forbidden`, naming the missing scopes, unless the principal holds every scope of a task."""
    if lacking := [scope for scope in scopes if not principal.may(scope)]:
        raise Forbidden(f"a task can't have scopes that its submitter does not hold: {', '.join(lacking)[:1000]}")


class Readable(Protocol):
    """The fields of a task that decide who may read it."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def room(self) -> str:
        """The room from which it was submitted."""
        ...

    @property
    def job_name(self) -> str:
        """Its job's full name."""
        ...

    @property
    def submitter(self) -> str:
        """The user who submitted it."""
        ...

    @property
    def run_id(self) -> int:
        """Its last run."""
        ...


def submitted(principal: Principal, task: Readable) -> bool:
    """Return whether the principal is the user who submitted the task, and could still submit it."""
    if principal.user != task.submitter or principal.run is not None:
        return False
    return principal.scopes is None or principal.may(rights.create_task(task.room, task.job_name))


def sees_flow(principal: Principal, flow: Flow) -> bool:
    """Return whether the principal may read the flow: its room, or as a submitter who could still submit from there."""
    visibility = visibility_of(principal)
    if visibility is None or visibility.admits(flow.room):
        return True
    return principal.run is None and principal.user == flow.submitter and _submits_from(principal, flow.room)


def _submits_from(principal: Principal, room: str) -> bool:
    """Return whether the principal may submit tasks of any job from the room."""
    submits = _named(principal, rights.CREATE)
    return submits is None or submits.reaches_into(f"{room}/")


def sees(principal: Principal, task: Readable) -> bool:
    """Return whether the principal may read the task: its room, as submitter, or with a scope of one of its runs."""
    visibility = visibility_of(principal)
    if visibility is None or visibility.admits(task.room) or submitted(principal, task):
        return True
    is_its_run = principal.run is not None and principal.run[0] == task.id
    return is_its_run or principal.may(rights.claim_task(task.id, task.run_id))


def controls(principal: Principal, task: Task) -> bool:
    """Return whether the principal may control the task: as superuser, its submitter, or by the scope for its room."""
    return principal.superuser or submitted(principal, task) or principal.may(rights.CONTROL + task.room)


def check_control(principal: Principal, task: Task) -> None:
    """Raise `Forbidden` unless the principal may control the task, or `TaskNotFound` if it may not even see it."""
    if controls(principal, task):
        return
    if not sees(principal, task):
        raise unseen(task.id)
    if principal.scopes is None:
        raise Forbidden(f"task {task.id} was submitted by another user; only they or a superuser may steer it")
    raise _lacking(principal, rights.CONTROL + task.room)


def check_send(principal: Principal, task: Task) -> None:
    """Raise as `check_control`, unless the principal is the task's own open run, which may send it messages too."""
    if task.is_leased and principal.may(rights.claim_task(task.id, task.run_id)):
        return
    check_control(principal, task)


def unseen(task_id: str) -> TaskNotFound:
    """Return the error for a task that does not exist, and for one that the principal may not see."""
    return TaskNotFound(f"there is no task {task_id}")


def check_content(principal: Principal, task: Task) -> None:
    """Raise `Forbidden` unless the principal holds the task's scopes: its code acts with them on what it is given."""
    if task.scopes is not None and not principal.superuser:
        check_task_scopes(principal, orjson.loads(task.scopes))


# Schedules


def check_schedule(principal: Principal, schedule: Schedule, job_name: str) -> None:
    """Raise `Forbidden` unless the principal may control the schedule, or `ScheduleNotFound` if it may not see it.

    Its owner may control it while they may submit its tasks.
    """
    if principal.superuser or principal.may(rights.CONTROL + schedule.room):
        return
    may_submit = principal.scopes is None or principal.may(rights.create_task(schedule.room, job_name))
    if principal.user == schedule.owner and principal.run is None and may_submit:
        return
    visibility = visibility_of(principal)
    if visibility is not None and not visibility.admits(schedule.room):
        raise ScheduleNotFound(f"there is no schedule {schedule.name!r} in room {schedule.room}")
    raise Forbidden(
        f"schedule {schedule.name!r} belongs to {schedule.owner!r}: only they, a superuser, or a token with the"
        f" scope {rights.CONTROL}{schedule.room} may steer it"
    )


# Limits


def check_limit(principal: Principal, room: str) -> None:
    """Raise `Forbidden` unless the principal may set and delete the room's limits, which apply to everybody's tasks."""
    if room in SHARED_ROOMS and not principal.superuser:
        raise Forbidden(f"only a superuser may set limits in {room}; use a room of your own")
    if principal.superuser or principal.scopes is None:
        return
    needs_scope(principal, rights.CONTROL + room)


# Workers and runs


def is_own(principal: Principal, worker: Worker) -> bool:
    """Return whether the principal may act as the worker: a superuser or its owner, but not a run's credential.

    A token with scopes also needs the scope for the worker's group and name.
    """
    if principal.superuser:
        return True
    if principal.user != worker.owner or principal.run is not None:
        return False
    return principal.scopes is None or principal.may(rights.worker_id(worker.group, worker.name))


def check_own(principal: Principal, worker: Worker) -> None:
    """Raise `Forbidden` unless `is_own`: because of a missing scope, or because the worker is another user's."""
    if is_own(principal, worker):
        return
    if principal.user == worker.owner and principal.run is None:
        raise _lacking(principal, rights.worker_id(worker.group, worker.name))
    raise Forbidden(f"worker {worker.id} belongs to another user")


def check_worker(principal: Principal, group: str | None, name: str | None, pool: str | None) -> None:
    """Raise `Forbidden` unless the principal may be a worker of this group and name, and claim in its pool."""
    if principal.superuser or principal.scopes is None:
        return
    needs_scope(principal, rights.worker_id(group, name))
    needs_scope(principal, rights.claim_work(pool))


def speaks_for(principal: Principal, worker: Worker | None, task_id: str, run_id: int) -> bool:
    """Return whether the principal may report on a run: as its worker, or with the run's own scope."""
    if principal.superuser or (principal.scopes is not None and principal.may(rights.claim_task(task_id, run_id))):
        return True
    return worker is not None and is_own(principal, worker)
