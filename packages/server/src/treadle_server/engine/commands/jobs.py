"""Commands that register, replace, revive and pause jobs."""

import json
from dataclasses import dataclass, field
from typing import Any

from uuid_utils import uuid7

from treadle.wire.ids import JobId, WorkerId
from treadle.wire.names import InvalidRoom, JobName, parse_room, visible_from
from treadle_server.access.checks import check_limit, check_queue, check_register, check_schema, check_worker, is_own
from treadle_server.access.principal import Principal
from treadle_server.domain.jobs import Job, Worker
from treadle_server.domain.limits import Caps, Limit, Named, check_named
from treadle_server.domain.widening import same_value, widens
from treadle_server.engine.commands.base import OneRow
from treadle_server.engine.commands.workers import job_name_or_404
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.rules import check_category
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import Forbidden, InvalidRoomId, SchemaConflict, WorkerNotFound, no_job


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered job; `created` is true if it is new or revived."""

    job: Job
    created: bool
    worker_id: WorkerId | None


def check_room(room: str) -> str:
    """Return the room unchanged. Raises `InvalidRoomId` if it is not a valid one."""
    try:
        return parse_room(room)
    except InvalidRoom as error:
        raise InvalidRoomId(str(error)) from None


@dataclass(slots=True, kw_only=True)
class RegisterJob(OneRow):
    """Registers a job, and links the worker that serves it."""

    principal: Principal
    room: str
    category: str
    name: str
    schema: str
    """JSON text."""
    defaults: str = "{}"
    """JSON text of the options of its tasks."""
    worker_id: WorkerId | None = None
    make_worker: bool = True
    retain: bool = False
    replace: bool = False
    widen: bool = False
    """Whether a schema that only widens the registered one replaces it."""
    fair: str | None = None
    origin: str | None = None
    """Which function registers it, `module:qualname`."""
    encrypted: bool = False
    missing_limits: dict[str, Caps] = field(default_factory=dict)
    """The caps with which those of its limits are created that don't exist yet, by name."""

    def reads(self, reads: ReadSet) -> None:
        """Read the job and the worker."""
        reads.job_names.add(self._name)
        reads.jobs_change = True
        reads.new_jobs += 1
        reads.limits.update((self.room, one["name"]) for one in self._limits)
        if self.worker_id is not None:
            reads.workers.add(self.worker_id)

    @property
    def _limits(self) -> list[dict[str, Any]]:
        limits: list[dict[str, Any]] = json.loads(self.defaults).get("limits") or []
        return limits

    @property
    def _name(self) -> JobName:
        return JobName(self.room, self.category, self.name)

    def apply(self, work: UnitOfWork) -> Registered:
        """Register the job.

        Raises `InvalidRoomId`, `Forbidden` (a shared room, a missing scope, another user's schema), `InvalidCategory`,
        `SchemaConflict`, `LimitNotFound` (`ValidationFailed` for a weight that can never fit) or `WorkerNotFound`,
        checked in this order.
        """
        check_room(self.room)
        check_register(self.principal, self.room)
        check_category(self.category, work.rules.allowed_categories)
        job = work.jobs.get(self._name)
        if job is not None and job.deleted_at is None:
            if job.encrypted != self.encrypted:
                self._check_flip(job)
            elif not same_json(job.schema, self.schema):
                self._check_replacement(job)
        missing = self._missing_limits(work)
        own = [Named(self.room, one["name"], one.get("key"), one.get("weight") or 1) for one in self._limits]
        check_named(own, work.limits | missing)
        worker = self._worker(work)
        for limit in missing.values():
            work.put_limit(limit)
        created = job is None or job.deleted_at is not None
        job = self._new(work) if job is None else self._renew(work, job)
        if worker is not None:
            work.link(worker, job)
        return Registered(job, created, worker.id if worker else None)

    def _missing_limits(self, work: UnitOfWork) -> dict[tuple[str, str], Limit]:
        """Return those of its limits that are to be created. Raises `Forbidden` unless the caller may do so."""
        missing = {name: caps for name, caps in self.missing_limits.items() if (self.room, name) not in work.limits}
        if missing:
            try:
                check_limit(self.principal, self.room)
            except Forbidden as error:
                one = next(iter(missing))
                raise Forbidden(
                    f"{error}, or have the limit {one!r} created first (treadle limits set {one} --room {self.room} …)"
                ) from None
        return {(self.room, name): caps.limit(self.room, name, work.now) for name, caps in missing.items()}

    def _check_replacement(self, job: Job) -> None:
        """Raise `SchemaConflict` unless the caller asked to replace the schema, or to widen it and the new one does.

        Raises `Forbidden` if the caller may not replace it.
        """
        if self.replace or (self.widen and widens(job.schema, self.schema)):
            check_schema(self.principal, job)
            return
        whose = f" (of {job.origin})" if job.origin and job.origin != self.origin else ""
        raise SchemaConflict(
            f"{job.full_name} is registered with another schema{whose}"
            f"{', and this one does more than widen it' if self.widen else ''}: replace it with replace: true"
            " (treadle worker --replace-schema), or use another name"
        )

    def _check_flip(self, job: Job) -> None:
        """Raise `SchemaConflict` unless the caller asked for the change to or from encrypted tasks.

        Otherwise clients unaware of it would submit plain text, and workers get what they can't decrypt. Raises
        `Forbidden` as above.
        """
        if self.replace:
            check_schema(self.principal, job)
            return
        wanted = "as encrypted, and this one is not" if job.encrypted else "as not encrypted, and this one is"
        raise SchemaConflict(
            f"{job.full_name} is registered {wanted}: change that with replace: true (treadle worker"
            " --replace-schema) once all of its workers have the keys, or use another name"
        )

    def _worker(self, work: UnitOfWork) -> Worker | None:
        if self.worker_id is not None:
            worker = work.workers.get(self.worker_id)
            if worker is None or not is_own(self.principal, worker):
                raise WorkerNotFound(f"you have no worker {self.worker_id}")
            return worker
        if not self.make_worker:
            return None
        check_worker(self.principal, None, None, None)
        worker = Worker(WorkerId(str(uuid7())), self.principal.user, created_at=work.now, last_heartbeat=work.now)
        work.add_worker(worker)
        return worker

    def _new(self, work: UnitOfWork) -> Job:
        job = Job(
            num=work.job_nums.popleft(),
            id=JobId(str(uuid7())),
            room=self.room,
            category=self.category,
            name=self.name,
            schema=self.schema,
            schema_version=1,
            defaults=self.defaults,
            created_at=work.now,
            retain=self.retain,
            fair=self.fair,
            origin=self.origin,
            encrypted=self.encrypted,
            owner=self.principal.user,
        )
        work.add_job(job)
        return job

    def _renew(self, work: UnitOfWork, job: Job) -> Job:
        revived = job.deleted_at is not None
        # A change to or from encryption needs a new schema version too, so that payloads are checked again.
        new_schema = job.encrypted != self.encrypted or not same_json(job.schema, self.schema)
        origin = self.origin if revived or new_schema else self._origin(job)
        if not (revived or new_schema or self._differs(job)):
            if origin != job.origin:
                job.origin = origin
                work.change_job(job)
            return job
        job.deleted_at = None
        job.defaults = self.defaults
        job.retain = self.retain
        job.origin = origin
        if revived:
            job.fair, job.paused, job.owner = self.fair, False, self.principal.user
        if new_schema:
            job.schema, job.encrypted = self.schema, self.encrypted
            job.schema_version += 1
        work.change_job(job, schema=new_schema)
        return job

    def _origin(self, job: Job) -> str | None:
        """Return the origin of a job that is otherwise unchanged: the first one given, unless it is to be replaced."""
        return (self.origin or job.origin) if self.replace else (job.origin or self.origin)

    def _differs(self, job: Job) -> bool:
        """Return whether the defaults or `retain` change; linking another worker without any leaves them."""
        says_them = self.replace or self.defaults != "{}"
        return (says_them and not same_json(job.defaults, self.defaults)) or (self.retain and not job.retain)


def same_json(one: str, other: str) -> bool:
    """Return whether two JSON texts have the same value, regardless of key order and formatting."""
    return one == other or same_value(json.loads(one), json.loads(other))


@dataclass(slots=True, kw_only=True)
class PatchJob(OneRow):
    """Pauses or resumes a queue."""

    principal: Principal
    job_name: str
    room: str
    paused: bool

    def reads(self, reads: ReadSet) -> None:
        """Read the job."""
        reads.job_names.add(job_name_or_404(self.job_name))
        reads.jobs_change = True

    def apply(self, work: UnitOfWork) -> Job:
        """Return the job. Raises `InvalidRoomId`, `JobNotFound` or `Forbidden`."""
        job = find_job(work, self.room, self.job_name)
        check_queue(self.principal, job, self.room)
        if job.paused != self.paused:
            job.paused = self.paused
            work.change_job(job)
            work.wake_jobs.add(job.num)
        return job


def find_job(work: UnitOfWork, room: str, full_name: str) -> Job:
    """Return the job as seen from the room. Raises `InvalidRoomId` or `JobNotFound`."""
    check_room(room)
    job = work.jobs.get(job_name_or_404(full_name))
    if job is None or job.deleted_at is not None or not visible_from(room, job.room):
        raise no_job(full_name, room)
    return job
