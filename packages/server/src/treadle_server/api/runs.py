"""Runs over HTTP: their list, and what their worker reports, each fenced by the run."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

from treadle.wire.ids import TaskId
from treadle.wire.workers import Renewal
from treadle_server.access.principal import SYSTEM, Principal
from treadle_server.access.rights import claim_task
from treadle_server.api.context import MOST_PER_PAGE, Api, Call
from treadle_server.api.encode import answer, happening_data, log_data, page_data, run_data, taken_until_data
from treadle_server.api.reading import read_task, shown_after
from treadle_server.api.reporting import from_body
from treadle_server.domain.life import check_owner
from treadle_server.engine.commands import Beat, ReportRun
from treadle_server.engine.commands.reports import check_reach
from treadle_server.errors import StaleRun, WorkerNotFound
from treadle_server.store.read import logs as read_logs
from treadle_server.store.read import runs as read_runs
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.history import happenings


async def list_of_task(call: Call) -> Response:
    """List the task's runs, the first one first; the last may be open. Up to 500 unless `limit` says otherwise."""
    limit, offset = call.limit(MOST_PER_PAGE), call.offset()
    async with call.api.engine.store.read() as connection:
        task = await read_tasks.get(connection, call.task_id)
        found = await read_runs.of_task(connection, task)
    items = [run_data(run) for run in found[offset : offset + limit]]
    return answer(page_data(items, len(found), limit, offset))


async def events_of_task(call: Call) -> Response:
    """List what happened to the task, as far as its row and its runs still tell, in the order of time.

    Up to 500 unless `limit` says otherwise.
    """
    limit, offset = call.limit(MOST_PER_PAGE), call.offset()
    found = await shown_events(call.api, call.task_id)
    return answer(page_data(found[offset : offset + limit], len(found), limit, offset))


async def shown_events(api: Api, task_id: TaskId) -> list[dict[str, Any]]:
    """Return what happened to the task as `TaskEvent`. Raises `TaskNotFound`."""
    async with api.engine.store.read() as connection:
        task = await read_tasks.get(connection, task_id)
        found = await read_runs.of_task(connection, task)
    return [happening_data(one) for one in happenings(task, found)]


async def logs_of_task(call: Call) -> Response:
    """Give the last 1,000 lines that the task's code logged, the first one first."""
    async with call.api.engine.store.read() as connection:
        task = await read_tasks.get(connection, call.task_id)
        lines = await read_logs.of_task(connection, task.seq)
    return answer({"items": [log_data(line) for line in lines], "total": len(lines), "limit": 1000, "offset": 0})


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
        return answer(await shown_after(call.api, await call.api.engine.run(command)))

    handler.__doc__ = f"Report of a run: {kind}."
    return handler


async def reclaim(call: Call) -> Response:
    """Extend the run's lease; 409 when it is over or another worker's."""
    return answer(await reclaim_run(call.api, call.principal, call.task_id, call.run_id))


async def reclaim_run(api: Api, principal: Principal, task_id: TaskId, run_id: int) -> dict[str, Any]:
    """Extend the run's lease and return it as `TakenUntil`, with fresh credentials.

    Raises `TaskNotFound`, `StaleRun`, `Forbidden`, or `StoreUnavailable`.
    """
    check_reach(principal, task_id, run_id)
    await api.access.credentials.look()
    task = await read_task(api, task_id)
    check_owner(task, run_id)
    if task.worker_id is None:
        raise StaleRun(f"run {run_id} of task {task_id} is over")
    # Who holds the run's scope need not be the worker's user; the renewal is fenced by worker and run all the same.
    asker = SYSTEM if principal.may(claim_task(task_id, run_id)) else principal
    renewal = Renewal(task_id=task_id, run_id=run_id)
    try:
        beaten = await api.engine.run(Beat(principal=asker, worker_id=task.worker_id, tasks=[renewal]))
    except WorkerNotFound:
        raise StaleRun(f"the worker of run {run_id} is gone") from None
    for renewed in beaten.taken_until:
        if (renewed.id, renewed.run_id) == (task_id, run_id):
            credentials = api.access.credentials.mint(renewed, principal.user)
            return {
                **taken_until_data(renewed, api.now()),
                "credentials": credentials,
                "pause": renewed.cancel_requested,
            }
    raise StaleRun(f"run {run_id} of task {task_id} is over: stop its code")
