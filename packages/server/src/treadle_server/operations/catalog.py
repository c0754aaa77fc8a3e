"""Jobs in memory, so that a submit needs no read: the hub keeps them current, and the writer checks them again."""

from collections.abc import Iterable

from sqlalchemy import select

from treadle.wire.names import visible_from
from treadle_server.domain.check_cost import check_cost
from treadle_server.domain.encryption import check_payload
from treadle_server.domain.jobs import MOST_TEXT, Job
from treadle_server.domain.lately_used import LatelyUsed
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import BLIND, Visibility
from treadle_server.engine.hub import Batch
from treadle_server.errors import ValidationFailed, no_job
from treadle_server.operations.checker_process import CheckerProcess
from treadle_server.operations.schemas import Validators, compile_schema, schema_without
from treadle_server.store.read import jobs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import job_schemas

MOST_JOBS = 10_000
"""The most jobs in memory."""


class Catalog:
    """Jobs by name, and the validators of their payloads."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._jobs: LatelyUsed[str, Job] = LatelyUsed(MOST_JOBS, MOST_TEXT)
        self._validators = Validators()
        self.checker = CheckerProcess()

    def on_commit(self, batch: Batch) -> None:
        """Take over the jobs that a commit changed, unless a later version is known already."""
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
        """Forget the job, because it has changed elsewhere: it is read again when it is needed."""
        self._jobs.drop(full_name)

    async def moved(self, known: Iterable[Job]) -> set[str]:
        """Return which of the jobs have changed in the store, and forget these.

        Called before something is refused because of a job: commits of other servers arrive here a moment late.
        """
        wanted = {(job.num, job.version): job.full_name for job in known}
        async with self._store.read() as connection:
            present = await jobs.versions(connection, sorted({num for num, _ in wanted}))
        found = {name for (num, version), name in wanted.items() if present.get(num) != version}
        for full_name in found:
            self.forget(full_name)
        return found

    async def find(self, full_name: str, *, room: str, visibility: Visibility | None = BLIND) -> Job:
        """Return the job with this full name as seen from `room`, from memory or from the store.

        Raises `JobNotFound`, which names a similar job that may be seen with this `visibility`.
        """
        job = self._jobs.get(full_name)
        if job is None:
            async with self._store.read() as connection:
                job = await jobs.by_name(connection, full_name, room=room, visibility=visibility)
            self._keep(job)
        elif not visible_from(room, job.room):
            raise no_job(full_name, room)
        return job

    def is_checked(self, job: Job, payload: dict[str, object], size: int) -> bool:
        """Check a payload whose text has `size` characters; return False if the `checker` has to do it.

        An encrypted payload was checked by its submitter; here it is only checked that it is encrypted. Raises
        `InvalidPayload`.
        """
        check_payload(payload, job.full_name, encrypted=job.encrypted)
        return job.encrypted or self._validators.is_checked(job.schema, payload, size)

    async def check_edit(self, task: Task, payload: dict[str, object], text: str, arguments: frozenset[str]) -> None:
        """Check a payload without these `arguments` against the version of the schema that its task keeps.

        Raises `InvalidPayload`, `TooManyRequests`, or `ValidationFailed` if the payload has one of the arguments.
        """
        if twice := sorted(arguments & payload.keys()):
            raise ValidationFailed(f"payload.{twice[0]}: leave it out, arguments_from gives another task's result")
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
        """Check that a schema is valid. Raises `ValidationFailed` or `TooManyRequests`."""
        if check_cost(schema, len(text)).is_cheap:
            compile_schema(schema)
        else:
            await self.checker.compile(text)
