"""Workers over HTTP: register, beat, claim, report, leave."""

from hashlib import sha256
from typing import Any, TypeVar

from starlette.responses import Response

from treadle.wire.ids import WorkerId
from treadle.wire.runs import ClaimRequest
from treadle.wire.workers import Heartbeat, RunRef, WorkerRegister
from treadle_server.access.checks import check_own, visibility_of
from treadle_server.access.principal import Principal
from treadle_server.api import body
from treadle_server.api.context import Api, Call
from treadle_server.api.encode import answer, claim_data, page_data
from treadle_server.api.reporting import ReportsOutline, names_of, report_answer, report_many
from treadle_server.api.waits import while_connected
from treadle_server.api.worker_rows import beaten_data, beats_data, plain_worker, worker_data
from treadle_server.domain.jobs import Worker
from treadle_server.engine.commands import Beat, Beaten, RegisterWorker, RemoveWorker
from treadle_server.engine.commands.jobs import check_room
from treadle_server.engine.dispatch.slots import ClaimKey
from treadle_server.errors import ValidationFailed
from treadle_server.store.read import workers as read_workers

R = TypeVar("R", bound=RunRef)

LONGEST_KEY = 255
"""Characters of an `Idempotency-Key`."""


async def register(call: Call) -> Response:
    """Register a worker; every field may be left out."""
    worker = await register_worker(call.api, call.principal, call.body)
    lost_after = call.api.settings.worker_timeout_seconds
    data = plain_worker(worker, call.api.now()) | beats_data(worker, lost_after, is_busy=False)
    return answer({**data, "jobs": [], "running": [], "used": 0}, 201, {"Location": f"/v1/workers/{worker.id}"})


async def register_worker(
    api: Api, principal: Principal, wanted: WorkerRegister, *, draining: bool = False, home: str | None = None
) -> Worker:
    """Register the worker, or attach the one that comes back under its id; `home` names the socket's server.

    Raises `Forbidden` for another user's.
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
    return await api.engine.run(command)


async def list_all(call: Call) -> Response:
    """List every worker, newest first."""
    return await _page(call, None)


async def list_in_room(call: Call) -> Response:
    """List the workers that serve a job which the room sees."""
    return await _page(call, check_room(call.path("room")))


async def _page(call: Call, room: str | None) -> Response:
    limit, offset = call.limit(), call.offset()
    async with call.api.engine.store.read() as connection:
        found, total = await read_workers.page(
            connection, room=room, visibility=call.visibility, owner=call.principal.owner, limit=limit, offset=offset
        )
        views = await read_workers.view(connection, found, call.visibility)
    now = call.api.now()
    lost_after, away_since = call.api.settings.worker_timeout_seconds, call.api.absences.since
    rows = [worker_data(view, now, lost_after, away_since(view.worker)) for view in views]
    return answer(page_data(rows, total, limit, offset))


async def get(call: Call) -> Response:
    """Get a worker."""
    return answer(await shown_worker(call.api, call.principal, call.worker_id))


async def shown_worker(api: Api, principal: Principal, worker_id: WorkerId) -> dict[str, Any]:
    """Return the worker as `WorkerItem`, with what the asker sees of its work. Raises `WorkerNotFound`."""
    async with api.engine.store.read() as connection:
        view = await read_workers.see_one(connection, worker_id, visibility_of(principal))
    return worker_data(view, api.now(), api.settings.worker_timeout_seconds, api.absences.since(view.worker))


async def beat(call: Call) -> Response:
    """Take a heartbeat; an empty body renews every lease of the worker."""
    beaten = await take_beat(call.api, call.principal, call.worker_id, call.body, revives=False)
    return answer(beaten_data(beaten, call.api.now(), call.api.settings.worker_timeout_seconds))


async def take_beat(
    api: Api, principal: Principal, worker_id: WorkerId, given: Heartbeat, *, revives: bool = True
) -> Beaten:
    """Take a heartbeat; a lost worker `revives` by it or is none any more.

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
    return await api.engine.run(command)


def in_range(refs: list[R]) -> list[R]:
    """Return the runs. Raises `ValidationFailed` for a number that no run can have."""
    for ref in refs:
        body.run_number(ref.run_id)
    return refs


async def remove(call: Call) -> Response:
    """Remove a worker: what it still holds ends as lost."""
    await call.api.engine.run(RemoveWorker(principal=call.principal, worker_id=call.worker_id))
    return Response(status_code=204)


async def claim(call: Call) -> Response:
    """Claim tasks, waiting for the first for up to `wait` seconds; a closed connection claims nothing."""
    wanted: ClaimRequest = call.body
    worker_id = WorkerId(wanted.worker_id)
    credentials = call.api.access.credentials
    key = claim_key(call.request.headers.getlist("idempotency-key"), wanted)
    await credentials.look()
    claiming = call.api.engine.claim(call.principal, worker_id, most=wanted.tasks, wait=wanted.wait, key=key)
    invalid = call.api.access.until_invalid(call.token) if wanted.wait else None
    now_claimed = await while_connected(call.request, claiming, call.api.waits.closing, invalid)
    now = call.api.now()
    tasks = [claim_data(task, now, credentials.mint(task, call.principal.user)) for task in now_claimed]
    return answer({"task": tasks[0] if tasks else None, "tasks": tasks})


def claim_key(given: list[str], wanted: ClaimRequest) -> ClaimKey | None:
    """Return the key under which the request may come again. Raises `ValidationFailed` for one that is none."""
    if not given:
        return None
    [text, *more] = given
    if more or not (0 < len(text) <= LONGEST_KEY and text.isascii() and text.isprintable()):
        raise ValidationFailed(
            f"Idempotency-Key: {', '.join(given)[:100]!r} is not one key of 1 to {LONGEST_KEY} printable ASCII"
            " characters, such as a UUID"
        )
    return ClaimKey(text, sha256(wanted.model_dump_json(include={"tasks", "wait"}).encode()).digest())


async def report(call: Call) -> Response:
    """Take many reports, each with its own answer."""
    wanted: ReportsOutline = call.body
    await check_owner(call.api, call.principal, call.worker_id)
    refused = await report_many(call.api, call.principal, call.worker_id, wanted.reports)
    named = enumerate(names_of(wanted.reports))
    return answer({"answers": [report_answer(*name, refused.get(i)) for i, name in named]})


async def check_owner(api: Api, principal: Principal, worker_id: WorkerId) -> None:
    """Raise `WorkerNotFound` when there is no such worker, and `Forbidden` when it is another user's."""
    async with api.engine.store.read() as connection:
        worker = await read_workers.get(connection, worker_id)
    check_own(principal, worker)
