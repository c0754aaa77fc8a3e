"""Workers' operations on the session socket."""

import asyncio
import logging
from typing import Annotated, Any

from pydantic import Field

from treadle.wire.fields import MOST_OF_REQUEST, MOST_WEIGHT, Flag, Request, Text
from treadle.wire.ids import RunId, TaskId, WorkerId
from treadle.wire.jobs import JobRegister
from treadle.wire.names import Room
from treadle.wire.status import WorkerState
from treadle.wire.steps import StepRef
from treadle.wire.workers import Heartbeat, RunRef, WorkerRegister
from treadle_server.authorization.permission import Permission
from treadle_server.domain.jobs import Job
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Beaten, LinkJobs, Reattach, RemoveWorker
from treadle_server.engine.commands.hand_back import hand_back
from treadle_server.engine.dispatch.presence import Presence
from treadle_server.engine.dispatch.slots import MOST_AHEAD, REPORTS_AT_ONCE, WorkerSlot
from treadle_server.errors import StoreUnavailable, TreadleError, ValidationFailed, WorkerNotFound
from treadle_server.live.session import Op, Reply, Session
from treadle_server.operations import values
from treadle_server.operations.carrying import carried_by, carries
from treadle_server.operations.encode import job_data
from treadle_server.operations.encode_claims import brief_claim, runs_data
from treadle_server.operations.jobs import register_job
from treadle_server.operations.reporting import ReportsOutline, refusal, report_answer, report_answers, report_many
from treadle_server.operations.runs import reclaim_run
from treadle_server.operations.steps import receive_message
from treadle_server.operations.worker_rows import beaten_data
from treadle_server.operations.workers import in_range, register_worker, shown_worker, take_beat
from treadle_server.store.read import jobs as read_jobs
from treadle_server.store.read import workers as read_workers

log = logging.getLogger(__name__)

JOBS_AT_ONCE = 200
"""Jobs of a worker that are registered in one commit, because each commit reads all jobs that it serves.

One after the other, 10,000 jobs kept the server busy for 52 seconds.
"""


class JobOfRoom(JobRegister):
    """A job that the worker serves, with its room."""

    room: Room


class Open(Request):
    """A worker connects, or reconnects."""

    worker: WorkerRegister = Field(default_factory=WorkerRegister)
    jobs: list[JobOfRoom] = Field(default_factory=list, max_length=MOST_OF_REQUEST)
    links: list[Text] = Field(default_factory=list, max_length=MOST_OF_REQUEST)
    held: list[RunRef] = Field(default_factory=list, max_length=MOST_OF_REQUEST)
    prefetch: Annotated[int, Field(ge=0, le=MOST_WEIGHT)] | None = None
    draining: Flag | None = None
    """Whether it takes no tasks until a `beat` says otherwise; left out, it is unchanged."""


class Return(Request):
    """Runs to hand back unstarted."""

    runs: list[RunRef] = Field(max_length=MOST_OF_REQUEST)


def _worker_of(session: Session) -> WorkerId:
    if session.worker_id is None:
        raise WorkerNotFound("this session has no worker: send open first")
    return session.worker_id


async def open_worker(session: Session, fields: dict[str, Any]) -> Reply:
    """Register the worker and its jobs, reconcile what it still holds, and open its slot.

    Raises `ValidationFailed` when the session has another worker, and as `register_worker` and `register_job` do.
    """
    wanted = values.validate(Open, fields)
    in_range(wanted.held)
    if session.worker_id is not None and wanted.worker.id != session.worker_id:
        raise ValidationFailed(f"worker.id: this session already is worker {session.worker_id}; open a second session")
    ctx = session.live.ctx
    worker = await register_worker(
        ctx, session.principal, wanted.worker, draining=wanted.draining, home=ctx.engine.hub.stream
    )
    # A later request to drain is not in this answer, and is pushed.
    session.drains = worker.state is WorkerState.DRAINING
    await session.live.displace(worker.id, session)
    is_new = wanted.worker.id is None or worker.created_at == worker.last_heartbeat
    try:
        jobs = await _serve_jobs(session, worker.id, wanted)
    except TreadleError:
        if is_new:
            await ctx.engine.run(RemoveWorker(principal=session.principal, worker_id=worker.id))
        raise
    beaten: Beaten | None = None
    if wanted.worker.id is not None:
        reattach = Reattach(
            principal=session.principal, worker_id=worker.id, held=wanted.held, home=ctx.engine.hub.stream
        )
        beaten = await ctx.engine.run(reattach)
    slot = WorkerSlot(
        worker_id=worker.id,
        jobs=frozenset(job.num for job in jobs if not job.is_internal),
        pool=worker.pool,
        concurrency=worker.concurrency,
        min_concurrency=worker.min_concurrency,
        prefetch=wanted.prefetch,
        draining=session.drains,
        presence=Presence(worker.last_heartbeat),
        deliver=lambda tasks: _deliver(session, tasks),
        most_bytes=ctx.settings.session_queue_bytes // 4,
        is_crowded=lambda: session.outbox.is_crowded,
        most_ahead=MOST_AHEAD[ctx.engine.store.dialect],
    )
    session.outbox.eased.add(ctx.engine.slot_changed)
    slot.hold(await _held(session, worker.id, beaten))
    ok = await _opened(session, worker.id, jobs, beaten)
    session.worker_id = worker.id
    return Reply(ok, lambda: session.live.open_slot(session, slot))


async def _serve_jobs(session: Session, worker_id: WorkerId, wanted: Open) -> list[Job]:
    ctx = session.live.ctx
    found: dict[int, Job] = {}
    for first in range(0, len(wanted.jobs), JOBS_AT_ONCE):
        some = (_served(session, worker_id, one) for one in wanted.jobs[first : first + JOBS_AT_ONCE])
        for done in await asyncio.gather(*some, return_exceptions=True):
            if isinstance(done, BaseException):
                raise done
            found[done.num] = done
    if wanted.links:
        links = LinkJobs(principal=session.principal, worker_id=worker_id, job_names=list(wanted.links))
        found |= {job.num: job for job in await ctx.engine.run(links)}
    return list(found.values())


async def _served(session: Session, worker_id: WorkerId, one: JobOfRoom) -> Job:
    register = JobRegister.model_validate(one.model_dump(exclude={"room"}, exclude_unset=True, by_alias=True))
    done = await register_job(
        session.live.ctx, session.principal, one.room, register, make_worker=False, worker_id=worker_id
    )
    return done.job


async def _held(session: Session, worker_id: WorkerId, beaten: Beaten | None) -> dict[tuple[TaskId, int], int]:
    """Return the weight of each run that the worker still holds, including stopping ones."""
    if beaten is None:
        return {}
    held = {(task.id, task.run_id): task.weight for task in beaten.taken_until}
    async with session.live.ctx.engine.store.read_loosely() as connection:
        return held | await read_workers.stopping(connection, worker_id)


async def _opened(session: Session, worker_id: WorkerId, jobs: list[Job], beaten: Beaten | None) -> dict[str, Any]:
    ctx = session.live.ctx
    async with ctx.engine.store.read() as connection:
        views = await read_jobs.view(connection, jobs, session.visibility)
    now = ctx.now()
    answer: dict[str, Any] = {
        "worker": await shown_worker(ctx, session.principal, worker_id),
        "jobs": [job_data(view, worker_id) for view in views],
        "gone": [],
        "taken_until": [],
        "reports_at_once": REPORTS_AT_ONCE[ctx.engine.store.dialect],
    }
    return answer if beaten is None else answer | runs_data(beaten, now)


def _deliver(session: Session, tasks: list[Task]) -> None:
    now = session.live.ctx.now()
    laden = [task for task in tasks if carries(task)]
    if plain := [task for task in tasks if not carries(task)] if laden else tasks:
        session.push_tasks("claim", [brief_claim(task, now) for task in plain])
    if laden:
        session.laden |= {(task.id, task.run_id): [] for task in laden}
        session.live.soon(_deliver_laden(session, laden), name="claims that carry more")


async def _deliver_laden(session: Session, tasks: list[Task]) -> None:
    """Push claims with the results and steps that they carry, after reading these."""
    ctx, runs = session.live.ctx, [(task.id, task.run_id) for task in tasks]
    try:
        carried = await carried_by(ctx, tasks)
    except StoreUnavailable as error:
        # A task with stored steps asks for these itself; tasks that need results return at their start timeout.
        carried, tasks = {}, [task for task in tasks if task.unmet is None]
        log.warning("the results and steps that go with claims could not be read: %s", error.detail)
    now = ctx.now()
    await session.push_as_read("claim", (brief_claim(task, now, carried.get(task.id)) for task in tasks))
    session.claimed(runs)


async def reports(session: Session, fields: dict[str, Any]) -> Reply:
    """Accept reports, each with its own answer; with `brief` only refusals are answered."""
    # A temporary credential stands for its run, and needs no worker of its own.
    worker_id = _worker_of(session) if session.principal.run is None else None
    ctx = session.live.ctx
    if session.slot is not None:
        session.slot.note_report(ctx.engine.clock.monotonic())
    brief = fields.pop("brief", False)
    given = values.outline(ReportsOutline, fields, "reports").reports
    refused = await report_many(ctx, session.principal, worker_id, given)
    if brief is True:
        return Reply({"refused": [{"index": i, **refusal(error)} for i, error in sorted(refused.items())]})
    return Reply({"answers": report_answers(given, refused)})


async def beat(session: Session, fields: dict[str, Any]) -> Reply:
    """Accept a heartbeat, and return what it renewed and what has to stop. Raises `WorkerNotFound` before `open`."""
    worker_id = _worker_of(session)
    given = values.validate(Heartbeat, fields)
    is_idle = given.tasks == [] and not (session.slot is not None and session.slot.held)
    if is_idle and not given.stopped and given.draining is None:
        # It renews nothing, and can wait to be written together with others.
        await session.live.idle_beats.turn()
    if given.draining is not None:
        # Set before the commit, so that the worker is not told to do what it has announced itself.
        session.drains = given.draining
    beaten = await take_beat(session.live.ctx, session.principal, worker_id, given)
    if given.draining is not None and session.slot is not None:
        session.slot.draining = given.draining
        session.live.ctx.engine.slot_changed()
    if beaten.gone:
        # Runs that another server has ended without this server knowing.
        session.live.ctx.engine.let_go(beaten.gone)
    ctx = session.live.ctx
    return Reply(beaten_data(beaten, ctx.now(), ctx.settings.worker_timeout_seconds))


async def give_back(session: Session, fields: dict[str, Any]) -> Reply:
    """Take back runs that were not started, and return a `ReportAnswer` for each, in order.

    Raises `WorkerNotFound` before `open`, and `ValidationFailed`.
    """
    worker_id = _worker_of(session)
    refs = in_range(values.validate(Return, fields).runs)
    runs = [(TaskId(ref.task_id), ref.run_id) for ref in refs]
    refused = await session.live.ctx.engine.run(hand_back(session.principal, worker_id, runs))
    answers = [report_answer(*run, refused.get(i)) for i, run in enumerate(runs)]
    return Reply({"answers": answers})


async def reclaim(session: Session, fields: dict[str, Any]) -> Reply:
    """Extend a run's lease, and return fresh credentials for its code."""
    [ref] = in_range([values.validate(RunRef, fields)])
    return Reply(await reclaim_run(session.live.ctx, session.principal, TaskId(ref.task_id), RunId(ref.run_id)))


class Receive(StepRef, RunRef):
    """A step of a run that waits for a message."""


async def receive(session: Session, fields: dict[str, Any]) -> Reply:
    """Receive the oldest waiting message for a step of a run, as `Received`. Raises as `receive_message` does."""
    given = values.validate(Receive, fields)
    [ref] = in_range([given])
    task_id = TaskId(ref.task_id)
    return Reply(
        await receive_message(session.live.ctx, session.principal, task_id, ref.run_id, given, session.worker_id)
    )


async def close(session: Session, fields: dict[str, Any]) -> Reply:
    """Remove the worker; the runs that it still holds end as lost.

    Raises `WorkerNotFound` before `open`, and `ValidationFailed` for any field.
    """
    worker_id = _worker_of(session)
    if fields:
        raise ValidationFailed(f"{', '.join(sorted(fields))}: close takes no fields")
    session.live.close_slot(session)
    await session.live.ctx.engine.run(RemoveWorker(principal=session.principal, worker_id=worker_id))
    session.worker_id = None
    return Reply({})


OPS: dict[str, Op] = {
    "open": Op.of("open", open_worker),
    "reports": Op.of("reports", reports),
    "beat": Op.of("beat", beat),
    "reclaim": Op.of("reclaim", reclaim),
    "receive": Op.of("receive", receive),
    "return": Op(give_back, Permission.OWN_WORKER),
    "close": Op.of("close", close),
}
