"""Creates, changes, pauses, runs and shows schedules."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from treadle.wire.options import TaskTraits
from treadle.wire.schedules import ScheduleContent, SchedulePatch, SchedulePut
from treadle_server.access.checks import check_create, check_schedule, visibility_of
from treadle_server.access.principal import Principal
from treadle_server.access.scopes import check_new
from treadle_server.domain.jobs import Job
from treadle_server.domain.schedules import Content, first_tick
from treadle_server.engine.commands import DeleteSchedule, PauseSchedule, RunSchedule, SchemaMoved, SetSchedule
from treadle_server.engine.commands.schedules import WasSet
from treadle_server.errors import InvalidPayload, ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.checking import TRIES, check_one, unstable
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import dumps, schedule_data
from treadle_server.store.read import schedules as read_schedules
from treadle_server.store.read.schedules import ScheduleView

_OPTIONS = frozenset({*TaskTraits.model_fields, "deadline", "flow_name"})
"""The options that a schedule's template may have."""


async def set_schedule(
    ctx: OperationContext, principal: Principal, room: str, name: str, wanted: SchedulePut
) -> WasSet:
    """Create or replace a schedule.

    Raises `InvalidRoomId`, `JobNotFound`, `InvalidPayload`, `ValidationFailed` (an invalid expression, zone or
    time), `Forbidden`, `TaskConflict`, `InternalJobNotConfigured`, `SchemaConflict` or `TooManyRequests`.
    """
    check_create(principal, room, [wanted.job])
    check_new(wanted.scopes or ())
    first_tick(wanted.cron, wanted.zone, wanted.interval, ctx.now())
    for _ in range(TRIES):
        job = await ctx.catalog.find(wanted.job, room=room, visibility=visibility_of(principal))
        try:
            await check_one(ctx.catalog, job, wanted.payload)
        except InvalidPayload:
            if await ctx.catalog.moved([job]):
                continue
            raise
        command = SetSchedule(
            principal=principal,
            room=room,
            name=name,
            job_name=job.full_name,
            content=_content(wanted, job),
            paused=wanted.paused,
            content_hash=wanted.content_hash,
            if_version=wanted.if_version,
        )
        try:
            return await ctx.engine.run(command)
        except SchemaMoved:
            ctx.catalog.forget(wanted.job)
    raise unstable()


def _content(wanted: ScheduleContent, job: Job) -> Content:
    options = wanted.model_dump(include=set(_OPTIONS), exclude_none=True)
    return Content(
        payload=values.text_of(wanted.payload),
        schema_version=job.schema_version,
        template=values.text_of(options),
        cron=wanted.cron,
        # Written out, so that leaving out UTC and naming it are the same.
        zone=None if wanted.cron is None else wanted.zone or "UTC",
        interval_seconds=wanted.interval,
        jitter_seconds=wanted.jitter,
        missed=wanted.missed,
    )


async def _read(ctx: OperationContext, room: str, name: str) -> ScheduleView:
    async with ctx.engine.store.read() as connection:
        return await read_schedules.get(connection, room=room, name=name, tokens_at=ctx.engine.tokens_at())


async def shown_schedule(ctx: OperationContext, room: str, name: str) -> dict[str, Any]:
    """Return the schedule as `ScheduleItem`. Raises `ScheduleNotFound`."""
    return schedule_data(await _read(ctx, room, name))


def _patched(known: ScheduleView, patch: SchedulePatch) -> SchedulePut:
    """Return the changed schedule, on condition that it is still what was read. Raises `ValidationFailed`."""
    shown = {name: value for name, value in from_json(dumps(schedule_data(known))).items() if value is not None}
    options = {**shown.pop("options"), **(patch.options or {})}
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ValidationFailed(f"options: unknown option {', '.join(unknown)}; see the body of PUT")
    merged = {name: value for name, value in options.items() if value is not None}
    merged |= {
        name: shown[name] for name in ("cron", "zone", "interval", "jitter", "missed", "payload") if name in shown
    }
    merged |= patch.model_dump(exclude_unset=True, exclude={"options", "if_version"})
    if patch.interval is not None:
        merged |= {"cron": None, "zone": None}
    elif patch.cron is not None:
        merged["interval"] = None
    version = known.schedule.version if patch.if_version is None else patch.if_version
    return values.validate(SchedulePut, {**merged, "job": known.job_name, "if_version": version})


async def _pause(
    ctx: OperationContext, principal: Principal, room: str, name: str, *, paused: bool, if_version: int | None = None
) -> None:
    await ctx.engine.run(PauseSchedule(principal=principal, room=room, name=name, paused=paused, if_version=if_version))


async def change_schedule(
    ctx: OperationContext, principal: Principal, room: str, name: str, wanted: SchedulePatch
) -> None:
    """Pause or resume a schedule, or change parts of it, if it is still what was read.

    Raises `ScheduleNotFound`, and the same as `set_schedule`.
    """
    if wanted.model_fields_set <= {"paused", "if_version"} and wanted.paused is not None:
        await _pause(ctx, principal, room, name, paused=wanted.paused, if_version=wanted.if_version)
    else:
        known = await _read(ctx, room, name)
        # Before any error about its content: nothing may be said about a schedule that is hidden.
        check_schedule(principal, known.schedule, known.job_name)
        await set_schedule(ctx, principal, room, name, _patched(known, wanted))


async def steer_schedule(
    ctx: OperationContext, principal: Principal, room: str, name: str, action: str
) -> Mapping[str, Any]:
    """Pause, resume, run or delete a schedule; return it, or nothing if it was deleted.

    Raises `InvalidRoomId`, `ScheduleNotFound`, `Forbidden`, or `TaskConflict` (run while its last task is open).
    """
    match action:
        case "pause" | "resume":
            await _pause(ctx, principal, room, name, paused=action == "pause")
        case "run":
            await ctx.engine.run(RunSchedule(principal=principal, room=room, name=name))
        case _:
            await ctx.engine.run(DeleteSchedule(principal=principal, room=room, name=name))
            return {}
    return await shown_schedule(ctx, room, name)
