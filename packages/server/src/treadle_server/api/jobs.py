"""Jobs over HTTP: register, list, get, pause."""

from starlette.responses import Response

from treadle.wire.jobs import JobPatch, JobRegister
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.encode import job_data, page_data
from treadle_server.operations.jobs import measured, pause_queue, register_job, shown_job
from treadle_server.store.read import jobs as read_jobs


async def register(call: Call) -> Response:
    """Register a job: 201 if it is new or revived, 200 if it exists with the same schema."""
    wanted: JobRegister = call.body
    # A client that registers a job to be retained need not serve it.
    makes_worker = wanted.worker_id is None and not wanted.retain
    done = await register_job(call.ctx, call.principal, call.room, wanted, make_worker=makes_worker)
    data = await shown_job(call.ctx, call.principal, done.job, done.worker_id)
    return answer(data, 201 if done.created else 200)


async def list_in_room(call: Call) -> Response:
    """List the jobs that the room sees: its own, and those of the shared rooms."""
    room, limit, offset = call.room, call.limit(), call.offset()
    async with call.ctx.engine.store.read() as connection:
        found, total = await read_jobs.page(
            connection, room=room, visibility=call.visibility, limit=limit, offset=offset
        )
        views = await read_jobs.view(connection, found, call.visibility)
    items = [job_data(view, measured=measured(call.ctx.rates, view)) for view in views]
    return answer(page_data(items, total, limit, offset))


async def get(call: Call) -> Response:
    """Get a job as the room sees it."""
    room, name = call.room, call.path("job_name")
    # Not from the catalog: another server of this database may have paused it.
    async with call.ctx.engine.store.read() as connection:
        job = await read_jobs.by_name(connection, name, room=room, visibility=call.visibility)
        [view] = await read_jobs.view(connection, [job], call.visibility)
    return answer(job_data(view, measured=measured(call.ctx.rates, view)))


async def patch(call: Call) -> Response:
    """Pause or resume a queue."""
    wanted: JobPatch = call.body
    name = call.path("job_name")
    return answer(await pause_queue(call.ctx, call.principal, call.room, name, paused=wanted.paused))
