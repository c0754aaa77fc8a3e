"""Schedules over HTTP: made, listed, changed, run by hand, deleted."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json
from starlette.responses import Response

from treadle.wire.options import TaskTraits
from treadle.wire.schedules import ScheduleContent, SchedulePatch, SchedulePut
from treadle_server.access.checks import check_create
from treadle_server.access.principal import Principal
from treadle_server.access.scopes import check_scopes
from treadle_server.api import body
from treadle_server.api.checking import check_one
from treadle_server.api.context import Api, Call
from treadle_server.api.encode import answer, dumps, page_data, schedule_data
from treadle_server.api.reading import shown_after
from treadle_server.domain.jobs import Job
from treadle_server.domain.schedules import first_tick
from treadle_server.engine.commands import DeleteSchedule, PauseSchedule, RunSchedule, SchemaMoved, SetSchedule
from treadle_server.engine.commands.jobs import check_room
from treadle_server.engine.commands.schedules import Content, WasSet
from treadle_server.errors import SchemaConflict, ValidationFailed
from treadle_server.store.read import schedules as read_schedules
from treadle_server.store.read.schedules import ScheduleView

TRIES = 5
"""How often a payload is checked anew when its job's schema changes at the same moment."""

_OPTIONS = frozenset({*TaskTraits.model_fields, "deadline"})
"""What a schedule's template may hold."""


def _name(call: Call) -> str:
    """Return the schedule's name from the path. Raises `ValidationFailed`."""
    name = call.path("name")
    if not 0 < len(name) <= 255 or not name.isprintable():
        raise ValidationFailed("name: a schedule's name has 1 to 255 characters, and no control characters")
    return name


async def put(call: Call) -> Response:
    """Make a schedule, 201, or replace the one of this name; what stays the same keeps its next tick."""
    wanted: SchedulePut = call.body
    room, name = check_room(call.path("room")), _name(call)
    done = await set_schedule(call.api, call.principal, room, name, wanted)
    return answer(await shown_schedule(call.api, room, name), 201 if done.created else 200)


async def set_schedule(api: Api, principal: Principal, room: str, name: str, wanted: SchedulePut) -> WasSet:
    """Make or replace a schedule.

    Raises `InvalidRoomId`, `JobNotFound`, `InvalidPayload`, `ValidationFailed` (an expression, zone or time that
    can't be), `Forbidden`, `TaskConflict`, `InternalJobNotConfigured`, `SchemaConflict` or `TooManyRequests`.
    """
    check_create(principal, room, [wanted.job])
    check_scopes(wanted.scopes or ())
    first_tick(wanted.cron, wanted.zone, wanted.interval, api.now())
    for _ in range(TRIES):
        job = await api.catalog.find(wanted.job, room=room)
        await check_one(api.catalog, job, wanted.payload)
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
            return await api.engine.run(command)
        except SchemaMoved:
            api.catalog.forget(wanted.job)
    raise SchemaConflict("the job's schema changes faster than the payload can be checked; try again")


def _content(wanted: ScheduleContent, job: Job) -> Content:
    options = wanted.model_dump(include=set(_OPTIONS), exclude_none=True)
    return Content(
        payload=body.text_of(wanted.payload),
        schema_version=job.schema_version,
        template=body.text_of(options),
        cron=wanted.cron,
        # Spelt out, so that leaving it out and naming it are the same.
        zone=None if wanted.cron is None else wanted.zone or "UTC",
        interval_seconds=wanted.interval,
        jitter_seconds=wanted.jitter,
        missed=wanted.missed,
    )


async def _read(api: Api, room: str, name: str) -> ScheduleView:
    async with api.engine.store.read() as connection:
        return await read_schedules.get(connection, room=room, name=name, tokens_at=api.engine.tokens_at())


async def shown_schedule(api: Api, room: str, name: str) -> dict[str, Any]:
    """Return the schedule as `ScheduleItem`. Raises `ScheduleNotFound`."""
    return schedule_data(await _read(api, room, name))


async def list_in_room(call: Call) -> Response:
    """List the schedules that the room sees, newest first: its own, and those of the shared rooms."""
    room, limit, offset = check_room(call.path("room")), call.limit(), call.offset()
    async with call.api.engine.store.read() as connection:
        found, total = await read_schedules.page(
            connection,
            room=room,
            visibility=call.visibility,
            limit=limit,
            offset=offset,
            tokens_at=call.api.engine.tokens_at(),
        )
    return answer(page_data([schedule_data(view) for view in found], total, limit, offset))


async def get(call: Call) -> Response:
    """Get a schedule: its next tick, and its last task."""
    return answer(await shown_schedule(call.api, check_room(call.path("room")), _name(call)))


async def patch(call: Call) -> Response:
    """Pause or resume a schedule, or change parts of it."""
    wanted: SchedulePatch = call.body
    api, room, name = call.api, check_room(call.path("room")), _name(call)
    if wanted.model_fields_set <= {"paused", "if_version"} and wanted.paused is not None:
        await _pause(api, call.principal, room, name, paused=wanted.paused, if_version=wanted.if_version)
    else:
        known = await _read(api, room, name)
        await set_schedule(api, call.principal, room, name, _patched(known, wanted))
    return answer(await shown_schedule(api, room, name))


def _patched(known: ScheduleView, patch: SchedulePatch) -> SchedulePut:
    """Return the schedule as it is to be, if it is still what was read. Raises `ValidationFailed`."""
    shown = {name: value for name, value in from_json(dumps(schedule_data(known))).items() if value is not None}
    options = {**shown.pop("options"), **(patch.options or {})}
    if unknown := sorted(options.keys() - _OPTIONS):
        raise ValidationFailed(f"options: there is no option {', '.join(unknown)}; see the body of PUT")
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
    return body.validate(SchedulePut, {**merged, "job": known.job_name, "if_version": version})


async def _pause(
    api: Api, principal: Principal, room: str, name: str, *, paused: bool, if_version: int | None = None
) -> None:
    await api.engine.run(PauseSchedule(principal=principal, room=room, name=name, paused=paused, if_version=if_version))


async def delete(call: Call) -> Response:
    """Delete a schedule; what of it is open goes on to its end, and nothing follows."""
    command = DeleteSchedule(principal=call.principal, room=check_room(call.path("room")), name=_name(call))
    await call.api.engine.run(command)
    return Response(status_code=204)


async def run(call: Call) -> Response:
    """Put the schedule's task in now; its ticks stay as they are. 409 while its last task is open or its key held."""
    command = RunSchedule(principal=call.principal, room=check_room(call.path("room")), name=_name(call))
    task = await call.api.engine.run(command)
    return answer(await shown_after(call.api, task), 202, {"Location": f"/v1/tasks/{task.id}", "Retry-After": "1"})


async def steer_schedule(api: Api, principal: Principal, room: str, name: str, action: str) -> Mapping[str, Any]:
    """Pause, resume, run or delete a schedule; return it, or of a deleted one nothing.

    Raises `InvalidRoomId`, `ScheduleNotFound`, `Forbidden`, or `TaskConflict` (run while its last task is open).
    """
    match action:
        case "pause" | "resume":
            await _pause(api, principal, room, name, paused=action == "pause")
        case "run":
            await api.engine.run(RunSchedule(principal=principal, room=room, name=name))
        case _:
            await api.engine.run(DeleteSchedule(principal=principal, room=room, name=name))
            return {}
    return await shown_schedule(api, room, name)
