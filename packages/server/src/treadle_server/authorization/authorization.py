"""The one place where requests are authorized, by the permission that their route or operation needs.

Commands check what depends on the row (whose task it is, whose worker has the run) within their transaction, with the
same functions: `treadle_server.access.checks`.
"""

from treadle.wire.ids import TaskId, WorkerId
from treadle_server.access import rights
from treadle_server.access.checks import (
    check_create,
    check_limit,
    check_register,
    controls,
    is_own,
    needs_scope,
    own_workers,
    sees,
    unseen,
    visibility_of,
)
from treadle_server.access.principal import Principal
from treadle_server.authorization.permission import Permission
from treadle_server.errors import (
    Forbidden,
    LimitNotFound,
    ScheduleNotFound,
    TargetNotFound,
    WorkerNotFound,
    no_job,
)
from treadle_server.store.read import runs as read_runs
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read import workers as read_workers
from treadle_server.store.read.dependencies import waits_for
from treadle_server.store.store import SqlStore


def check_user(
    permission: Permission, principal: Principal, *, room: str | None = None, job: str | None = None
) -> None:
    """Check what can be checked without the store; `job` is a job's full name.

    Raises `Forbidden`, `JobNotFound`, `ScheduleNotFound`, `LimitNotFound` or `TargetNotFound`.
    """
    if principal.superuser or permission.is_open or permission is Permission.TOKEN:
        return
    if permission is Permission.SUPERUSER:
        raise Forbidden("only a superuser may do this")
    if permission is Permission.METRICS:
        needs_scope(principal, rights.METRICS)
    if room is None:
        return
    visibility = visibility_of(principal)
    match permission:
        case Permission.REGISTER_JOB:
            check_register(principal, room)
        case Permission.CREATE_TASK if job is not None:
            check_create(principal, room, [job])
        case Permission.WEBHOOK if principal.run is not None:
            # Otherwise the task's code could read, redirect and delete the webhooks of its worker's user.
            raise Forbidden("webhooks belong to users, and a run's credential is not a user's: use a token")
        case Permission.WEBHOOK if principal.scopes is not None:
            needs_scope(principal, rights.READ + room)
            needs_scope(principal, rights.CONTROL + room)
        case Permission.READ_JOB if visibility is not None and not visibility.admits(room):
            raise no_job(str(job), room)
        case Permission.READ_SCHEDULE if visibility is not None and not visibility.admits(room):
            raise ScheduleNotFound(f"there is no schedule in room {room} that this token may read")
        case Permission.SET_LIMIT:
            check_limit(principal, room)
        case Permission.READ_LIMIT if visibility is not None and not visibility.admits(room):
            raise LimitNotFound(f"there is no limit in room {room} that this token may read")
        case Permission.READ_TARGET if visibility is not None and not visibility.admits(room):
            raise TargetNotFound(f"no task of room {room} that this token may read has ever named this target")


async def check_row(
    store: SqlStore,
    permission: Permission,
    principal: Principal,
    *,
    task_id: TaskId | None = None,
    run_id: int | None = None,
    worker_id: WorkerId | None = None,
) -> None:
    """Hide tasks and workers from tokens whose scopes do not cover them.

    Principals that may read all rooms need no check. Raises `TaskNotFound`, `WorkerNotFound` or `StoreUnavailable`.
    """
    visibility = visibility_of(principal)
    if visibility is None:
        return
    if permission.of_a_task and task_id is not None:
        await _check_task(store, principal, task_id, run_id)
    if permission is Permission.READ_WORKER and worker_id is not None:
        async with store.read_loosely() as connection:
            if not await read_workers.is_seen(connection, worker_id, visibility, own_workers(principal)):
                raise WorkerNotFound(f"there is no worker {worker_id}")


async def _check_task(store: SqlStore, principal: Principal, task_id: TaskId, run_id: int | None) -> None:
    async with store.read_loosely() as connection:
        task = await read_tasks.get(connection, task_id)
        has_run = run_id is not None and principal.may(rights.claim_task(task_id, run_id))
        if has_run or sees(principal, task) or controls(principal, task):
            return
        if principal.run is not None and await waits_for(connection, principal.run[0], task_id):
            return
        for worker_id in await read_runs.workers_of(connection, task, run_id):
            worker = await read_workers.find(connection, worker_id)
            if worker is not None and is_own(principal, worker):
                return
    raise unseen(task_id)
