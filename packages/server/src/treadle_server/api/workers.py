"""Workers over HTTP: register, send heartbeats, claim, report, leave."""

from hashlib import sha256

from starlette.responses import Response

from treadle.wire.fields import LONGEST_TEXT
from treadle.wire.ids import WorkerId
from treadle.wire.runs import ClaimRequest
from treadle_server.access.checks import own_workers
from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.api.connected import while_connected
from treadle_server.domain.tasks import ClaimKey
from treadle_server.engine.commands import RemoveWorker
from treadle_server.errors import ValidationFailed
from treadle_server.operations.carrying import carried_by
from treadle_server.operations.encode import page_data
from treadle_server.operations.encode_claims import claim_data
from treadle_server.operations.reporting import ReportsOutline, report_answers, report_many
from treadle_server.operations.worker_rows import beaten_data, beats_data, plain_worker, worker_data
from treadle_server.operations.workers import check_owner, drain_worker, register_worker, shown_worker, take_beat
from treadle_server.store.read import workers as read_workers


async def register(call: Call) -> Response:
    """Register a worker; every field may be left out."""
    worker = await register_worker(call.ctx, call.principal, call.body)
    lost_after = call.ctx.settings.worker_timeout_seconds
    data = plain_worker(worker, call.ctx.now()) | beats_data(worker, lost_after, is_busy=False)
    return answer(
        {**data, "jobs": [], "running": [], "used": 0}, 201, {"Location": call.reference(f"/v1/workers/{worker.id}")}
    )


async def list_all(call: Call) -> Response:
    """List every worker, newest first."""
    return await _page(call, None)


async def list_in_room(call: Call) -> Response:
    """List the workers that serve a job which the room sees."""
    return await _page(call, call.room)


async def _page(call: Call, room: str | None) -> Response:
    limit, offset = call.limit(), call.offset()
    async with call.ctx.engine.store.read() as connection:
        found, total = await read_workers.page(
            connection,
            room=room,
            visibility=call.visibility,
            own=own_workers(call.principal),
            limit=limit,
            offset=offset,
        )
        views = await read_workers.view(connection, found, call.visibility)
    now = call.ctx.now()
    lost_after, away_since = call.ctx.settings.worker_timeout_seconds, call.ctx.absences.since
    rows = [worker_data(view, now, lost_after, away_since(view.worker)) for view in views]
    return answer(page_data(rows, total, limit, offset))


async def get(call: Call) -> Response:
    """Get a worker."""
    return answer(await shown_worker(call.ctx, call.principal, call.worker_id))


async def beat(call: Call) -> Response:
    """Send a heartbeat; an empty body renews every lease of the worker."""
    beaten = await take_beat(call.ctx, call.principal, call.worker_id, call.body, revives=False)
    return answer(beaten_data(beaten, call.ctx.now(), call.ctx.settings.worker_timeout_seconds))


async def drain(call: Call) -> Response:
    """Ask a worker to claim no more tasks, finish its own and leave; it hears of it by its next heartbeat."""
    return answer(await drain_worker(call.ctx, call.principal, call.worker_id))


async def remove(call: Call) -> Response:
    """Remove a worker; the runs that it still holds end as lost."""
    await call.ctx.engine.run(RemoveWorker(principal=call.principal, worker_id=call.worker_id))
    return Response(status_code=204)


async def claim(call: Call) -> Response:
    """Claim tasks, waiting for the first for up to `wait` seconds; a closed connection claims nothing."""
    wanted: ClaimRequest = call.body
    worker_id = WorkerId(wanted.worker_id)
    credentials = call.ctx.access.credentials
    key = claim_key(call.request.headers.getlist("idempotency-key"), wanted)
    await credentials.keys.look()
    claiming = call.ctx.engine.claims.claim(call.principal, worker_id, most=wanted.tasks, wait=wanted.wait, key=key)
    invalid = call.ctx.access.until_invalid(call.token) if wanted.wait else None
    now_claimed = await while_connected(call.request, claiming, call.ctx.waits.closing, invalid)
    carried = await carried_by(call.ctx, now_claimed)
    now = call.ctx.now()
    tasks = [
        claim_data(task, now, credentials.mint(task, call.principal.user), carried.get(task.id)) for task in now_claimed
    ]
    return answer({"task": tasks[0] if tasks else None, "tasks": tasks})


def claim_key(given: list[str], wanted: ClaimRequest) -> ClaimKey | None:
    """Return the idempotency key of a claim, if it has one. Raises `ValidationFailed` if it is malformed."""
    if not given:
        return None
    [text, *more] = given
    if more or not (0 < len(text) <= LONGEST_TEXT and text.isascii() and text.isprintable()):
        raise ValidationFailed(
            f"Idempotency-Key: {', '.join(given)[:100]!r} is not one key of 1 to {LONGEST_TEXT} printable ASCII"
            " characters, such as a UUID"
        )
    return ClaimKey(text, sha256(wanted.model_dump_json(include={"tasks", "wait"}).encode()).digest())


async def report(call: Call) -> Response:
    """Send many reports, each with its own answer."""
    wanted: ReportsOutline = call.body
    await check_owner(call.ctx, call.principal, call.worker_id)
    refused = await report_many(call.ctx, call.principal, call.worker_id, wanted.reports)
    return answer({"answers": report_answers(wanted.reports, refused)})
