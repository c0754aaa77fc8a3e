"""The server about itself: totals, health, and its problem types."""

import asyncio
from dataclasses import asdict

from sqlalchemy import select
from starlette.responses import Response

from treadle.wire.ids import is_uuid
from treadle.wire.problems import PROBLEMS
from treadle_server import __version__
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.api.problems import page
from treadle_server.clock import SystemClock
from treadle_server.errors import NoSuchRoute, StoreUnavailable, ValidationFailed
from treadle_server.operations.context import OperationContext
from treadle_server.services.artifacts import ArtifactSweeper
from treadle_server.services.base import WELL
from treadle_server.store.read import stats as read_stats

PATIENCE = 5.0
"""Seconds that the store has to answer: readiness probes don't wait longer."""


async def stats(call: Call) -> Response:
    """Get totals over all jobs and workers."""
    ctx = call.ctx
    async with ctx.engine.store.read() as connection:
        totals = await read_stats.totals(connection, call.visibility)
    about = {
        "server_time": ctx.now(),
        "version": __version__,
        "database": ctx.engine.store.dialect,
        "started_at": ctx.started_at,
    }
    return answer(asdict(totals) | about)


async def recent_events(call: Call) -> Response:
    """List the last transitions in brief, oldest first; filter by `room`, `job` and `task`.

    Raises `ValidationFailed` if `task` is not a task id.
    """
    task_id = call.text("task")
    if task_id is not None and not is_uuid(task_id):
        raise ValidationFailed(f"task: {task_id[:100]!r} is not a task id: write a UUID")
    limit = call.limit()
    found = call.ctx.recent.last(
        limit,
        room=call.room_meant(),
        job=call.text("job"),
        task_id=None if task_id is None else task_id.lower(),
        visibility=call.visibility,
    )
    hub = call.ctx.engine.hub
    return answer({"stream": hub.stream, "seq": hub.seq, "limit": limit, "items": [one.shown() for one in found]})


async def healthz(call: Call) -> Response:
    """Check that the process is alive."""
    services, time = call.ctx.states(), SystemClock().now()
    return answer({"status": "ok", "version": __version__, "services": services, "time": time})


async def readyz(call: Call) -> Response:
    """Check that the store can be read and written, and every service's last turn succeeded; 503 if not.

    The sweeper of artifacts is shown, but doesn't count: tasks go on without their bucket, which all servers share, so
    to take one of them out of a load balancer would help nobody.
    """
    services = call.ctx.states()
    if services.get("store", "ok") == "ok":
        services["store"] = await _store(call.ctx)
    ready = all(state in WELL for name, state in services.items() if name != ArtifactSweeper.name)
    status, time = "ok" if ready else "not ready", SystemClock().now()
    data = {"status": status, "version": __version__, "services": services, "time": time}
    return answer(data, 200 if ready else 503, None if ready else {"Retry-After": "2"})


async def _store(ctx: OperationContext) -> str:
    try:
        async with asyncio.timeout(PATIENCE), ctx.engine.store.read() as connection:
            await connection.execute(select(1))
    except StoreUnavailable as error:
        return error.detail
    except TimeoutError:
        return f"the database has not answered for {PATIENCE:.0f} seconds"
    return "ok"


async def problem_page(call: Call) -> Response:
    """Explain a problem type.

    Raises `NoSuchRoute` for an unknown name.
    """
    kind = PROBLEMS.get(call.path("name"))
    if kind is None:
        raise NoSuchRoute(f"there is no problem type {call.path('name')[:80]!r}")
    return page(kind)
