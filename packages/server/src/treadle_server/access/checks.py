"""May they? Each question once, for the gate of the routes and for the commands that know the row."""

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
    """Raise `Forbidden`, naming the scope, unless the asker holds it, or one that reaches further."""
    if not principal.may(scope):
        raise _lacking(principal, scope)


def _lacking(principal: Principal, scope: str) -> Forbidden:
    """Return the refusal of who has not the scope; a run's credential has those that its task was submitted with."""
    if principal.run is None:
        return Forbidden(f"the token lacks the scope {scope[:400]}")
    return Forbidden(f"the run's credential lacks the scope {scope[:400]}: submit the task with it among its scopes")


def visibility_of(principal: Principal) -> Visibility | None:
    """Return which rooms are read; None: all."""
    return _named(principal, rights.READ)


def own_workers(principal: Principal) -> OwnWorkers | None:
    """Return which workers are the asker's own, as `is_own` says it of one; None: none are."""
    if principal.run is not None:
        return None
    return OwnWorkers(principal.user, _named(principal, rights.WORKER_ID))


def _named(principal: Principal, kind: str) -> Visibility | None:
    """Return what the asker's scopes of a kind name; None: all."""
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
    """Return whether it may change nothing: its scopes are, as far as Treadle knows them, those of reading."""
    return not principal.superuser and principal.scopes is not None and not any(map(_writes, principal.scopes))


_WRITES = (rights.REGISTER, rights.CREATE, rights.CLAIM_WORK, rights.WORKER_ID, rights.CONTROL, rights.CLAIM_TASK)


def _writes(scope: str) -> bool:
    start = scope.removesuffix("*")
    return any(scope.startswith(kind) or (scope != start and kind.startswith(start)) for kind in _WRITES)


# Jobs


def check_register(principal: Principal, room: str) -> None:
    """Raise `Forbidden` unless the asker may register jobs in the room, and so serve them."""
    if room == INTERNAL and not principal.superuser:
        raise Forbidden(f"only a superuser registers jobs in {room}; use a room of your own")
    if room in SHARED_ROOMS and not principal.may(rights.REGISTER + room):
        raise Forbidden(
            f"{room} is shared: only a superuser registers and serves jobs there; use a room of your own, or ask for"
            f" the scope {rights.REGISTER}{room}"
        )
    needs_scope(principal, rights.REGISTER + room)


def check_queue(principal: Principal, job: Job, room: str) -> None:
    """Raise `Forbidden` unless the asker may pause the job's queue, `JobNotFound` when it does not even see the job.

    `room` is the one that the job was looked for from.
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
            f"only a superuser, or who holds the scope {rights.CONTROL}{job.room}, pauses queues of {job.room}"
        )
    raise _lacking(principal, rights.CONTROL + job.room)


def check_schema(principal: Principal, job: Job) -> None:
    """Raise `Forbidden` unless the asker may replace the job's schema, be it by a wider one."""
    if principal.superuser or principal.may(rights.CONTROL + job.room):
        return
    if principal.run is None and principal.user == job.owner:
        return
    whose = "nobody that is known" if job.owner is None else f"{job.owner!r}"
    raise Forbidden(
        f"the schema of {job.full_name} was registered by {whose}: only they, a superuser, or who holds the scope"
        f" {rights.CONTROL}{job.room} may replace it"
    )


# Tasks


def check_create(principal: Principal, room: str, job_names: Iterable[str]) -> None:
    """Raise `Forbidden` unless the asker may submit tasks of each of the jobs, by their full names, from the room."""
    if not principal.superuser:
        for name in job_names:
            needs_scope(principal, rights.create_task(room, name))


def check_task_scopes(principal: Principal, scopes: Iterable[str]) -> None:
    """Raise `Forbidden`, naming those that are missing, unless the asker holds every scope that a task carries."""
    if lacking := [scope for scope in scopes if not principal.may(scope)]:
        raise Forbidden(f"a task carries no scope that its submitter does not hold: {', '.join(lacking)[:1000]}")


class Readable(Protocol):
    """What of a task says who reads it."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def room(self) -> str:
        """The room that it was submitted from."""
        ...

    @property
    def job_name(self) -> str:
        """Its job's full name."""
        ...

    @property
    def submitter(self) -> str:
        """Whose it is."""
        ...

    @property
    def run_id(self) -> int:
        """Its last run."""
        ...


def submitted(principal: Principal, task: Readable) -> bool:
    """Return whether the asker stands for the user who submitted the task, and might submit it now."""
    if principal.user != task.submitter or principal.run is not None:
        return False
    return principal.scopes is None or principal.may(rights.create_task(task.room, task.job_name))


def sees_flow(principal: Principal, flow: Flow) -> bool:
    """Return whether the asker reads the flow: its room, or as its submitter who might still submit from there."""
    visibility = visibility_of(principal)
    if visibility is None or visibility.admits(flow.room):
        return True
    return principal.run is None and principal.user == flow.submitter and _submits_from(principal, flow.room)


def _submits_from(principal: Principal, room: str) -> bool:
    """Return whether the asker may submit tasks of some job from the room."""
    submits = _named(principal, rights.CREATE)
    return submits is None or submits.reaches_into(f"{room}/")


def sees(principal: Principal, task: Readable) -> bool:
    """Return whether the asker reads the task: its room, or as its submitter, or with the scope of a run of it."""
    visibility = visibility_of(principal)
    if visibility is None or visibility.admits(task.room) or submitted(principal, task):
        return True
    is_its_run = principal.run is not None and principal.run[0] == task.id
    return is_its_run or principal.may(rights.claim_task(task.id, task.run_id))


def controls(principal: Principal, task: Task) -> bool:
    """Return whether the asker may steer the task: a superuser, its submitter, or who may control its room's tasks."""
    return principal.superuser or submitted(principal, task) or principal.may(rights.CONTROL + task.room)


def check_control(principal: Principal, task: Task) -> None:
    """Raise `Forbidden` unless the asker may steer the task, `TaskNotFound` when it does not even see it."""
    if controls(principal, task):
        return
    if not sees(principal, task):
        raise unseen(task.id)
    if principal.scopes is None:
        raise Forbidden(f"task {task.id} was submitted by another user; only they or a superuser may steer it")
    raise _lacking(principal, rights.CONTROL + task.room)


def check_send(principal: Principal, task: Task) -> None:
    """Raise unless the asker may send the task a message: who may steer it, and its own run; as `check_control`."""
    if task.is_leased and principal.may(rights.claim_task(task.id, task.run_id)):
        return
    check_control(principal, task)


def unseen(task_id: str) -> TaskNotFound:
    """Return what is said of a task that is not there, and of one that the asker may not see."""
    return TaskNotFound(f"there is no task {task_id}")


def check_content(principal: Principal, task: Task) -> None:
    """Raise `Forbidden` unless the asker holds the task's scopes: what its code is given to do is done with them."""
    if task.scopes is not None and not principal.superuser:
        check_task_scopes(principal, orjson.loads(task.scopes))


# Schedules


def check_schedule(principal: Principal, schedule: Schedule, job_name: str) -> None:
    """Raise `Forbidden` unless the asker may steer the schedule of the job, `ScheduleNotFound` when it is not seen.

    Its owner may who might still submit its tasks.
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
        f"schedule {schedule.name!r} belongs to {schedule.owner!r}: only they, a superuser, or who holds the scope"
        f" {rights.CONTROL}{schedule.room} may steer it"
    )


# Limits


def check_limit(principal: Principal, room: str) -> None:
    """Raise `Forbidden` unless the asker may set and delete the room's limits, which hold for everybody's tasks."""
    if room in SHARED_ROOMS and not principal.superuser:
        raise Forbidden(f"only a superuser sets limits of {room}; use a room of your own")
    if principal.superuser or principal.scopes is None:
        return
    needs_scope(principal, rights.CONTROL + room)


# Workers and runs


def is_own(principal: Principal, worker: Worker) -> bool:
    """Return whether the asker may act as the worker: a superuser, or its owner, but no run's credential.

    A token whose scopes are listed needs that of the worker's group and name besides.
    """
    if principal.superuser:
        return True
    if principal.user != worker.owner or principal.run is not None:
        return False
    return principal.scopes is None or principal.may(rights.worker_id(worker.group, worker.name))


def check_own(principal: Principal, worker: Worker) -> None:
    """Raise `Forbidden`, with the scope that is missing or that the worker is another user's, unless `is_own`."""
    if is_own(principal, worker):
        return
    if principal.user == worker.owner and principal.run is None:
        raise _lacking(principal, rights.worker_id(worker.group, worker.name))
    raise Forbidden(f"worker {worker.id} belongs to another user")


def check_worker(principal: Principal, group: str | None, name: str | None, pool: str | None) -> None:
    """Raise `Forbidden` unless the asker may be a worker of this group and name, and claim in its pool."""
    if principal.superuser or principal.scopes is None:
        return
    needs_scope(principal, rights.worker_id(group, name))
    needs_scope(principal, rights.claim_work(pool))


def speaks_for(principal: Principal, worker: Worker | None, task_id: str, run_id: int) -> bool:
    """Return whether the asker may report of a run: as its worker, or with the run's own scope."""
    if principal.superuser or (principal.scopes is not None and principal.may(rights.claim_task(task_id, run_id))):
        return True
    return worker is not None and is_own(principal, worker)
