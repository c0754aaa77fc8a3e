"""Schedules over HTTP: create, list, change, run by hand, delete."""

from starlette.responses import Response

from treadle.wire.schedules import SchedulePatch, SchedulePut, is_schedule_name
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.engine.commands import DeleteSchedule, RunSchedule
from treadle_server.errors import ValidationFailed
from treadle_server.operations.encode import page_data, schedule_data
from treadle_server.operations.reading import shown_after
from treadle_server.operations.schedules import change_schedule, set_schedule, shown_schedule
from treadle_server.store.read import schedules as read_schedules


def _name(call: Call) -> str:
    """Return the schedule's name from the path. Raises `ValidationFailed`."""
    name = call.path("name")
    if not is_schedule_name(name):
        raise ValidationFailed("name: a schedule's name has 1 to 255 characters, and no control characters")
    return name


async def put(call: Call) -> Response:
    """Create a schedule (201), or replace the one of this name; if its times stay the same, so does its next tick."""
    wanted: SchedulePut = call.body
    room, name = call.room, _name(call)
    done = await set_schedule(call.ctx, call.principal, room, name, wanted)
    return answer(await shown_schedule(call.ctx, room, name), 201 if done.created else 200)


async def list_in_room(call: Call) -> Response:
    """List the schedules that the room sees, newest first: its own, and those of the shared rooms."""
    room, limit, offset = call.room, call.limit(), call.offset()
    async with call.ctx.engine.store.read() as connection:
        found, total = await read_schedules.page(
            connection,
            room=room,
            visibility=call.visibility,
            limit=limit,
            offset=offset,
            tokens_at=call.ctx.engine.tokens_at(),
        )
    return answer(page_data([schedule_data(view) for view in found], total, limit, offset))


async def get(call: Call) -> Response:
    """Get a schedule: its next tick, and its last task."""
    return answer(await shown_schedule(call.ctx, call.room, _name(call)))


async def patch(call: Call) -> Response:
    """Pause or resume a schedule, or change parts of it."""
    wanted: SchedulePatch = call.body
    ctx, room, name = call.ctx, call.room, _name(call)
    await change_schedule(ctx, call.principal, room, name, wanted)
    return answer(await shown_schedule(ctx, room, name))


async def delete(call: Call) -> Response:
    """Delete a schedule; its open task goes on to its end, and no other follows."""
    command = DeleteSchedule(principal=call.principal, room=call.room, name=_name(call))
    await call.ctx.engine.run(command)
    return Response(status_code=204)


async def run(call: Call) -> Response:
    """Submit the schedule's task now, besides its ticks; 409 while its last task is open or its key is held."""
    command = RunSchedule(principal=call.principal, room=call.room, name=_name(call))
    task = await call.ctx.engine.run(command)
    headers = {"Location": call.reference(f"/v1/tasks/{task.id}"), "Retry-After": "1"}
    return answer(await shown_after(call.ctx, task), 202, headers)
