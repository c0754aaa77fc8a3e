"""Registers, pauses and shows jobs, with the measured rates of their queues."""

from typing import Any

from treadle.wire.ids import WorkerId
from treadle.wire.jobs import JobRegister
from treadle.wire.limits import LimitName
from treadle.wire.names import INTERNAL, InvalidJobName, parse_job_name
from treadle.wire.options import OF_JOB
from treadle_server.access.checks import check_register, visibility_of
from treadle_server.access.principal import Principal
from treadle_server.domain.jobs import Job
from treadle_server.engine.commands import PatchJob, Registered, RegisterJob
from treadle_server.engine.commands.jobs import check_room
from treadle_server.engine.rules import check_category
from treadle_server.errors import JobNotFound, ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import job_data
from treadle_server.operations.limits import caps_of
from treadle_server.services.rates import Rates
from treadle_server.store.read import jobs as read_jobs
from treadle_server.store.read.jobs import JobView

_OPTIONS = set(OF_JOB)
_NAMED = set(LimitName.model_fields)


async def register_job(
    ctx: OperationContext,
    principal: Principal,
    room: str,
    wanted: JobRegister,
    *,
    make_worker: bool,
    worker_id: WorkerId | None = None,
) -> Registered:
    """Register a job, linked to `worker_id` or to the worker that the registration names.

    Raises `InvalidRoomId`, `Forbidden`, `InvalidCategory`, `ValidationFailed` (an invalid schema, name or limit),
    `LimitNotFound`, `SchemaConflict`, `WorkerNotFound` or `TooManyRequests`.
    """
    schema = values.text_of(wanted.schema_)
    await _check(ctx, principal, room, wanted, schema)
    named = worker_id or (None if wanted.worker_id is None else WorkerId(wanted.worker_id))
    defaults = wanted.model_dump(include=_OPTIONS, exclude_unset=True, exclude_none=True)
    if wanted.limits is not None:
        defaults["limits"] = [one.model_dump(include=_NAMED, exclude_none=True) for one in wanted.limits]
    command = RegisterJob(
        principal=principal,
        room=room,
        category=wanted.category,
        name=wanted.name,
        schema=schema,
        defaults=values.text_of(defaults),
        worker_id=named,
        make_worker=make_worker,
        retain=wanted.retain,
        replace=wanted.replace,
        widen=wanted.widen,
        fair=wanted.fair,
        origin=wanted.origin,
        encrypted=wanted.encrypted,
        missing_limits={one.name: caps_of(caps) for one in wanted.limits or () if (caps := one.caps) is not None},
    )
    return await ctx.engine.run(command)


async def _check(ctx: OperationContext, principal: Principal, room: str, wanted: JobRegister, schema: str) -> None:
    """Refuse what the writer would refuse, in the same order, before the schema is compiled."""
    check_room(room)
    check_register(principal, room)
    check_category(wanted.category, ctx.settings.allowed_categories)
    try:
        parse_job_name(f"{room}:{wanted.category}:{wanted.name}")
    except InvalidJobName:
        raise ValidationFailed(f"name: {wanted.name!r} contains '/' or a control character; leave them out") from None
    if wanted.encrypted and room == INTERNAL:
        raise ValidationFailed("encrypted: the server itself runs the tasks of @internal jobs, and would need the keys")
    await ctx.catalog.check_schema(wanted.schema_, schema)


async def pause_queue(
    ctx: OperationContext, principal: Principal, room: str, full_name: str, *, paused: bool
) -> dict[str, Any]:
    """Pause or resume a queue, and return its job as `JobItem`.

    Raises `InvalidRoomId`, `Forbidden`, and `JobNotFound`, which names a similar job.
    """
    command = PatchJob(principal=principal, job_name=full_name, room=room, paused=paused)
    try:
        job = await ctx.engine.run(command)
    except JobNotFound:
        async with ctx.engine.store.read() as connection:
            await read_jobs.by_name(connection, full_name, room=room, visibility=visibility_of(principal))
        raise
    return await shown_job(ctx, principal, job)


async def shown_job(
    ctx: OperationContext, principal: Principal, job: Job, worker_id: WorkerId | None = None
) -> dict[str, Any]:
    """Return the job as `JobItem`, with what the principal may see of its tasks."""
    async with ctx.engine.store.read() as connection:
        [view] = await read_jobs.view(connection, [job], visibility_of(principal))
    return job_data(view, worker_id, measured(ctx.rates, view))


def measured(rates: Rates, view: JobView) -> dict[str, Any] | None:
    """Return the measured rates of the job's queue; None if the principal may not see its tasks."""
    return rates.of(view.job) if view.is_counted else None
