"""Shows a task's runs, logs and events, and renews the lease of a run."""

from typing import Any

from treadle.wire.ids import TaskId
from treadle.wire.workers import Renewal
from treadle_server.access.principal import SYSTEM, Principal
from treadle_server.access.rights import claim_task
from treadle_server.domain.life import check_owner
from treadle_server.engine.commands import Beat
from treadle_server.engine.commands.reports import check_reach
from treadle_server.errors import StaleRun, WorkerNotFound
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import happening_data, log_data, run_data
from treadle_server.operations.encode_claims import taken_until_data
from treadle_server.operations.reading import read_task
from treadle_server.store.read import logs as read_logs
from treadle_server.store.read import runs as read_runs
from treadle_server.store.read import steps as read_steps
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.history import happenings


async def shown_runs(ctx: OperationContext, task_id: TaskId) -> list[dict[str, Any]]:
    """Return the task's runs as `RunItem`, the first one first. Raises `TaskNotFound`."""
    async with ctx.engine.store.read() as connection:
        found = await read_runs.of_task(connection, await read_tasks.get(connection, task_id))
    return [run_data(run) for run in found]


async def shown_logs(ctx: OperationContext, task_id: TaskId) -> list[dict[str, Any]]:
    """Return the last 1,000 lines that the task's code logged as `LogItem`. Raises `TaskNotFound`."""
    async with ctx.engine.store.read() as connection:
        task = await read_tasks.get(connection, task_id)
        lines = await read_logs.of_task(connection, task.seq)
    return [log_data(line) for line in lines]


async def shown_events(ctx: OperationContext, task_id: TaskId) -> list[dict[str, Any]]:
    """Return what happened to the task as `TaskEvent`. Raises `TaskNotFound`."""
    async with ctx.engine.store.read() as connection:
        task = await read_tasks.get(connection, task_id)
        found = await read_runs.of_task(connection, task)
        steps = await read_steps.outline(connection, task.seq) if task.steps else []
    return [happening_data(one) for one in happenings(task, found, steps)]


async def reclaim_run(ctx: OperationContext, principal: Principal, task_id: TaskId, run_id: int) -> dict[str, Any]:
    """Extend the run's lease and return it as `TakenUntil`, with fresh credentials.

    Raises `TaskNotFound`, `StaleRun`, `Forbidden`, or `StoreUnavailable`.
    """
    check_reach(principal, task_id, run_id)
    await ctx.access.credentials.keys.look()
    task = await read_task(ctx, task_id)
    check_owner(task, run_id)
    if task.worker_id is None:
        raise StaleRun(f"run {run_id} of task {task_id} is over")
    # The holder of the run's scope need not be the worker's user; worker and run still fence the renewal.
    asker = SYSTEM if principal.may(claim_task(task_id, run_id)) else principal
    renewal = Renewal(task_id=task_id, run_id=run_id)
    try:
        beaten = await ctx.engine.run(Beat(principal=asker, worker_id=task.worker_id, tasks=[renewal]))
    except WorkerNotFound:
        raise StaleRun(f"the worker of run {run_id} is gone") from None
    for renewed in beaten.taken_until:
        if (renewed.id, renewed.run_id) == (task_id, run_id):
            credentials = ctx.access.credentials.mint(renewed, principal.user)
            return {
                **taken_until_data(renewed.id, renewed.run_id, renewed.taken_until, ctx.now()),
                "credentials": credentials,
                "pause": renewed.cancel_requested,
            }
    raise StaleRun(f"run {run_id} of task {task_id} is over: stop its code")
