"""Registers and shows workers, and takes their heartbeats."""

from typing import Any, TypeVar

from treadle.wire.ids import WorkerId
from treadle.wire.workers import Heartbeat, RunRef, WorkerRegister
from treadle_server.access.checks import check_own, visibility_of
from treadle_server.access.principal import Principal
from treadle_server.domain.jobs import Worker
from treadle_server.engine.commands import Beat, Beaten, DrainWorker, RegisterWorker
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext
from treadle_server.operations.worker_rows import worker_data
from treadle_server.store.read import workers as read_workers

R = TypeVar("R", bound=RunRef)


async def register_worker(
    ctx: OperationContext,
    principal: Principal,
    wanted: WorkerRegister,
    *,
    draining: bool | None = None,
    home: str | None = None,
) -> Worker:
    """Register a worker, or attach one that comes back with its id; `home` names the socket's server.

    Raises `Forbidden` if the worker is another user's.
    """
    command = RegisterWorker(
        principal=principal,
        id=None if wanted.id is None else WorkerId(wanted.id),
        name=wanted.name,
        group=wanted.group,
        pool=wanted.pool,
        version=wanted.version,
        concurrency=wanted.concurrency,
        min_concurrency=wanted.min_concurrency or 0,
        draining=draining,
        home=home,
    )
    return await ctx.engine.run(command)


async def shown_worker(ctx: OperationContext, principal: Principal, worker_id: WorkerId) -> dict[str, Any]:
    """Return the worker as `WorkerItem`, with what the principal may see of its work. Raises `WorkerNotFound`."""
    async with ctx.engine.store.read() as connection:
        found = await read_workers.get(connection, worker_id)
        [view] = await read_workers.view(connection, [found], visibility_of(principal))
    return worker_data(view, ctx.now(), ctx.settings.worker_timeout_seconds, ctx.absences.since(view.worker))


async def take_beat(
    ctx: OperationContext, principal: Principal, worker_id: WorkerId, given: Heartbeat, *, revives: bool = True
) -> Beaten:
    """Take a heartbeat; it `revives` a lost worker, or else a lost worker is not found.

    Raises `WorkerNotFound`, `Forbidden` or `ValidationFailed`.
    """
    command = Beat(
        principal=principal,
        worker_id=worker_id,
        tasks=None if given.tasks is None else in_range(given.tasks),
        stopped=in_range(given.stopped or []),
        draining=given.draining,
        revives=revives,
    )
    return await ctx.engine.run(command)


def in_range(refs: list[R]) -> list[R]:
    """Return the runs. Raises `ValidationFailed` if one has a number that no run can have."""
    for ref in refs:
        values.run_number(ref.run_id)
    return refs


async def drain_worker(ctx: OperationContext, principal: Principal, worker_id: WorkerId) -> dict[str, Any]:
    """Ask a worker to claim no more tasks, finish its own and leave; return it as `WorkerItem`.

    Raises `WorkerNotFound`, also if the worker is lost, and `Forbidden`.
    """
    await ctx.engine.run(DrainWorker(principal=principal, worker_id=worker_id))
    return await shown_worker(ctx, principal, worker_id)


async def check_owner(ctx: OperationContext, principal: Principal, worker_id: WorkerId) -> None:
    """Raise `WorkerNotFound` if there is no such worker, and `Forbidden` if it is another user's."""
    async with ctx.engine.store.read() as connection:
        worker = await read_workers.get(connection, worker_id)
    check_own(principal, worker)
