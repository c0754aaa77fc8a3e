"""The jobs in memory, so that a submit needs no read: kept current by the hub, and checked again by the writer."""

from collections.abc import Iterable

from sqlalchemy import select

from treadle.wire.names import visible_from
from treadle_server.domain.check_cost import check_cost
from treadle_server.domain.encryption import check_payload
from treadle_server.domain.jobs import MOST_TEXT, Job
from treadle_server.domain.lately_used import LatelyUsed
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch
from treadle_server.errors import ValidationFailed, no_job
from treadle_server.operations.checker_process import CheckerProcess
from treadle_server.operations.schemas import Validators, compile_schema, schema_without
from treadle_server.store.read import jobs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import job_schemas

MOST_JOBS = 10_000
"""Jobs in memory."""


class Catalog:
    """Jobs by name, and what checks payloads by their schemas."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._jobs: LatelyUsed[str, Job] = LatelyUsed(MOST_JOBS, MOST_TEXT)
        self._validators = Validators()
        self.checker = CheckerProcess()

    def on_commit(self, batch: Batch) -> None:
        """Take over what a commit changed, unless a later one is known already."""
        if batch.has_gap:
            self._jobs.clear()
        for job in batch.jobs:
            if (known := self._jobs.get(job.full_name)) is not None and known.version > job.version:
                continue
            self._jobs.drop(job.full_name)
            if job.deleted_at is None:
                self._keep(job)

    def _keep(self, job: Job) -> None:
        self._jobs.put(job.full_name, job, job.size)

    def forget(self, full_name: str) -> None:
        """Read the job anew the next time: it has changed elsewhere."""
        self._jobs.drop(full_name)

    async def moved(self, known: Iterable[Job]) -> set[str]:
        """Look which of the jobs, by which something was refused, have changed; forget and return them.

        What another server commits is told here a moment later: that alone is no reason to refuse.
        """
        wanted = {(job.num, job.version): job.full_name for job in known}
        async with self._store.read() as connection:
            present = await jobs.versions(connection, sorted({num for num, _ in wanted}))
        found = {name for (num, version), name in wanted.items() if present.get(num) != version}
        for full_name in found:
            self.forget(full_name)
        return found

    async def find(self, full_name: str, *, room: str) -> Job:
        """Return the job of this full name as seen from `room`, from memory or else from the store.

        Raises `JobNotFound`.
        """
        job = self._jobs.get(full_name)
        if job is None:
            async with self._store.read() as connection:
                job = await jobs.by_name(connection, full_name, room=room)
            self._keep(job)
        elif not visible_from(room, job.room):
            raise no_job(full_name, room)
        return job

    def is_checked(self, job: Job, payload: dict[str, object], size: int) -> bool:
        """Check a payload, whose text has `size` characters; return False when the `checker` has to do it.

        What is encrypted was checked by its submitter; here it is only looked at whether it is that. Raises
        `InvalidPayload`.
        """
        check_payload(payload, job.full_name, encrypted=job.encrypted)
        return job.encrypted or self._validators.is_checked(job.schema, payload, size)

    async def check_edit(self, task: Task, payload: dict[str, object], text: str, arguments: frozenset[str]) -> None:
        """Check a payload against the version of the schema that its task keeps; it lacks these `arguments`.

        Raises `InvalidPayload`, `TooManyRequests`, or `ValidationFailed` for one of them that stands in it.
        """
        if twice := sorted(arguments & payload.keys()):
            raise ValidationFailed(f"payload.{twice[0]}: comes from a task that it waits for, by arguments_from")
        schema = schema_without(await self._schema_of(task), arguments)
        if not self._validators.is_checked(schema, payload, len(text)):
            [refusal] = await self.checker.check(schema, [text])
            if refusal is not None:
                raise refusal

    async def _schema_of(self, task: Task) -> str:
        job = self._jobs.get(task.job_name)
        if job is not None and (job.num, job.schema_version) == (task.job_num, task.schema_version):
            return job.schema
        statement = select(job_schemas.c.schema).where(job_schemas.c.job_num == task.job_num)
        async with self._store.read() as connection:
            found = await connection.execute(statement.where(job_schemas.c.version == task.schema_version))
            return str(found.scalar_one())

    async def check_schema(self, schema: dict[str, object], text: str) -> None:
        """Check that a schema is one. Raises `ValidationFailed` or `TooManyRequests`."""
        if check_cost(schema, len(text)).is_cheap:
            compile_schema(schema)
        else:
            await self.checker.compile(text)
