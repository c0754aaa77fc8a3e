"""Tasks over HTTP: submit, list, get, wait, edit."""

import asyncio
import re
from typing import Any

from starlette.responses import Response

from treadle.wire.edits import TaskPatch
from treadle.wire.filters import TaskFilter
from treadle.wire.ids import TaskId
from treadle.wire.names import SHARED_ROOMS
from treadle.wire.status import TERMINAL, Status
from treadle.wire.tasks import TaskSubmit
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.api.connected import while_connected
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import PatchStatus
from treadle_server.engine.commands.statuses import REPORTED
from treadle_server.errors import InvalidTaskTransition, ValidationFailed
from treadle_server.operations import submitting, values
from treadle_server.operations.context import OperationContext
from treadle_server.operations.editing import edit_task
from treadle_server.operations.encode import page_data, seen_data
from treadle_server.operations.reading import read_task, shown_after, shown_submitted, shown_task
from treadle_server.operations.reporting import from_patch
from treadle_server.operations.task_lists import TasksOutline, tasks_of
from treadle_server.store.read import tasks as read_tasks

_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?([0-9]+)\"?\s*(?=$|[,;])", re.IGNORECASE)


async def submit(call: Call) -> Response:
    """Submit one task: 202, or 200 if there is a task with its id or unique key already."""
    wanted: TaskSubmit = call.body
    [done] = await submitting.submit(call.ctx, call.principal, call.room, [(call.path("job_name"), wanted)])
    [data] = await shown_submitted(call.ctx, [done])
    headers = {"Location": call.reference(f"/v1/tasks/{done.task.id}")}
    if done.created:
        headers["Retry-After"] = "1"
    return answer(data, 202 if done.created else 200, headers)


async def submit_all(call: Call) -> Response:
    """Submit many tasks, all or none."""
    wanted: TasksOutline = call.body
    tasks = await tasks_of(wanted.tasks)
    done = await submitting.submit(call.ctx, call.principal, call.room, [(task.job, task) for task in tasks])
    data = await shown_submitted(call.ctx, done)
    created = any(item.created for item in done)
    return answer({"tasks": data}, 202 if created else 200, {"Retry-After": "1"} if created else None)


async def _page(call: Call, wanted: TaskFilter) -> Response:
    limit, offset = call.limit(), call.offset()
    cursor = call.request.query_params.get("cursor")
    if cursor is not None and offset:
        raise ValidationFailed("give cursor or offset, not both")
    async with call.ctx.engine.store.read() as connection:
        page = await read_tasks.page(connection, wanted, limit=limit, offset=offset, cursor=cursor)
    items = [seen_data(seen) for seen in page.items]
    data = page_data(items, page.total, limit, offset, capped=page.total_is_capped, cursor=page.next_cursor)
    return answer({**data, "is_partial": page.is_partial})


async def list_all(call: Call) -> Response:
    """List tasks of every room, newest first."""
    return await _page(call, call.filter())


async def list_in_room(call: Call) -> Response:
    """List the tasks of a room, newest first."""
    return await _page(call, call.filter(room=call.room))


async def list_of_job(call: Call) -> Response:
    """List a job's tasks: those submitted from the room, or all of them if the room is a shared one."""
    room = call.room
    job = await call.ctx.catalog.find(call.path("job_name"), room=room, visibility=call.visibility)
    return await _page(call, call.filter(job=job.full_name, room=None if room in SHARED_ROOMS else room))


def wanted_wait(prefer: list[str], most: float) -> int | None:
    """Return the seconds of `Prefer: wait=N` (RFC 7240), capped; None if it is 0, not a number or missing."""
    for header in prefer:
        if found := _WAIT.search(header):
            digits = found.group(1).lstrip("0") or "0"
            # A longer number is above any cap, and Python refuses to parse thousands of digits.
            seconds = int(digits[:9])
            return min(seconds, int(most)) or None
    return None


async def get(call: Call) -> Response:
    """Get a task; with `Prefer: wait=N`, wait up to N seconds until it is over."""
    ctx = call.ctx
    wait = wanted_wait(call.request.headers.getlist("prefer"), ctx.settings.long_poll_max_wait_seconds)
    if wait is None:
        return answer(await shown_task(ctx, call.task_id))
    waiting = _shown_when_over(ctx, call.task_id, wait)
    shown, has_waited = await while_connected(
        call.request, waiting, ctx.waits.closing, ctx.access.until_invalid(call.token)
    )
    return answer(shown, headers={"Preference-Applied": f"wait={wait}"} if has_waited else {})


async def _shown_when_over(ctx: OperationContext, task_id: TaskId, seconds: float) -> tuple[dict[str, Any], bool]:
    """Return the task once it is over or the seconds have passed, and whether the request waited for it."""
    loop, has_waited = asyncio.get_running_loop(), False
    end = loop.time() + seconds
    while True:
        left = max(0.0, end - loop.time())
        has_waited |= await ctx.waits.until_over(task_id, left, lambda: read_task(ctx, task_id))
        shown = await shown_task(ctx, task_id)
        # It may have been rerun between the wait and this read.
        if shown["status"] in TERMINAL or not left or ctx.waits.closing.is_set():
            return shown, has_waited


async def patch(call: Call) -> Response:
    """Edit a task, cancel it, or change its status as older clients do."""
    wanted: TaskPatch = call.body
    if wanted.status is None or wanted.status is Status.CANCELLED:
        # These are not reports, whose commands check the run: a credential whose run is over may do neither.
        await call.ctx.access.credentials.check_open(call.principal)
    if wanted.status is None:
        task = await edit_task(call.ctx, call.principal, call.task_id, wanted)
    else:
        task = await _patch_status(call, wanted, wanted.status)
    return answer(await shown_after(call.ctx, task))


async def _patch_status(call: Call, wanted: TaskPatch, status: Status) -> Task:
    if status is not Status.CANCELLED and status not in REPORTED:
        await read_task(call.ctx, call.task_id)
        raise InvalidTaskTransition(f"a task can't be set to {status}; use claim, or the verb resume or rerun")
    command = PatchStatus(
        principal=call.principal,
        task_id=call.task_id,
        status=status,
        run_id=None if wanted.run_id is None else values.run_number(wanted.run_id),
        if_version=wanted.if_version,
        report=from_patch(wanted),
    )
    return await call.ctx.engine.run(command)
