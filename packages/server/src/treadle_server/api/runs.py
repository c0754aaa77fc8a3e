"""Runs over HTTP: list them, and take their worker's reports, each fenced by the run."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from treadle.wire.runs import LINES_AT_ONCE
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.engine.commands import ReportRun
from treadle_server.operations.encode import page_data
from treadle_server.operations.reading import shown_after
from treadle_server.operations.reporting import from_body
from treadle_server.operations.runs import reclaim_run, shown_events, shown_logs, shown_runs


async def list_of_task(call: Call) -> Response:
    """List the task's runs, the first one first; the last may be open. Up to 500 unless `limit` says otherwise."""
    limit, offset = call.limit(), call.offset()
    found = await shown_runs(call.ctx, call.task_id)
    return answer(page_data(found[offset : offset + limit], len(found), limit, offset))


async def events_of_task(call: Call) -> Response:
    """List what happened to the task in order of time, as far as its row and its runs still tell.

    Up to 500 unless `limit` says otherwise.
    """
    limit, offset = call.limit(), call.offset()
    found = await shown_events(call.ctx, call.task_id)
    return answer(page_data(found[offset : offset + limit], len(found), limit, offset))


async def logs_of_task(call: Call) -> Response:
    """Get the last 1,000 lines that the task's code logged, oldest first."""
    lines = await shown_logs(call.ctx, call.task_id)
    return answer({"items": lines, "total": len(lines), "limit": LINES_AT_ONCE, "offset": 0})


def report(kind: str) -> Callable[[Call], Awaitable[Response]]:
    """Return the handler of one kind of report."""

    async def handler(call: Call) -> Response:
        command = ReportRun(
            principal=call.principal,
            worker_id=None,
            task_id=call.task_id,
            run_id=call.run_id,
            report=from_body(kind, call.body),
        )
        return answer(await shown_after(call.ctx, await call.ctx.engine.run(command)))

    handler.__doc__ = f"Report of a run: {kind}."
    return handler


async def reclaim(call: Call) -> Response:
    """Extend the run's lease; 409 if the run is over or another worker's."""
    return answer(await reclaim_run(call.ctx, call.principal, call.task_id, call.run_id))
