"""Clients' operations on the session socket: submit, await, read and steer."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from treadle.wire.bulk import BulkAction, Freeze
from treadle.wire.edits import TaskPatch
from treadle.wire.fields import MOST_OF_REQUEST, Flag, Request, Text
from treadle.wire.ids import TaskId, Uuid, WorkerId
from treadle.wire.jobs import JobRegister
from treadle.wire.limits import LimitPut, LimitTitle
from treadle.wire.names import Room, parse_job_name
from treadle.wire.steps import MOST_STEPS, MessageSend
from treadle.wire.tasks import Rerun, Resolve, Steer, TaskOfMany
from treadle.wire.transitions import Action
from treadle_server.access.checks import visibility_of
from treadle_server.authorization.permission import Permission
from treadle_server.engine.commands import DeleteLimit, PatchJob, RemoveWorker, SubmitOutcome, Submitted
from treadle_server.errors import JobNotFound, TreadleError, ValidationFailed
from treadle_server.live.session import Op, Reply, Session
from treadle_server.operations import submitting, values
from treadle_server.operations.bulk import Edits, bulk, bulk_edit
from treadle_server.operations.editing import edit_task
from treadle_server.operations.encode import receipt_data, whoami_data
from treadle_server.operations.flows import shown_flow
from treadle_server.operations.jobs import register_job, shown_job
from treadle_server.operations.limits import set_limit, shown_limits
from treadle_server.operations.problems import problem_body
from treadle_server.operations.reading import shown_after, shown_submitted, shown_task
from treadle_server.operations.runs import shown_events, shown_logs, shown_runs
from treadle_server.operations.schedules import steer_schedule
from treadle_server.operations.steering import steer_task
from treadle_server.operations.steps import kept_steps, send_message
from treadle_server.operations.submitting import submit_each
from treadle_server.operations.task_lists import plain_tasks, tasks_of
from treadle_server.operations.windows import frozen
from treadle_server.operations.workers import drain_worker


class SubmitEach(Request):
    """Tasks to be put in, each by itself; their form is checked one by one."""

    room: Room
    tasks: list[Any] = Field(min_length=1, max_length=MOST_OF_REQUEST)
    wait: Flag = False


class Submit(SubmitEach):
    """Tasks to be put in, all or none."""

    brief: Flag = False


MOST_AT_ONCE = 500
"""Steps of one answer."""


class Ids(Request):
    """Tasks by id."""

    ids: list[Uuid] = Field(max_length=MOST_OF_REQUEST)


class One(Request):
    """A task, or a worker, by id."""

    id: Uuid


class Act(Resolve, Rerun):
    """A verb for a task, with the fields of `Resolve` and `Rerun`."""

    id: Uuid
    action: Action


class StepsFrom(One):
    """Asks for a task's steps, from one on."""

    offset: Annotated[int, Field(strict=True, ge=0, le=MOST_STEPS)] = 0


class ToTask(MessageSend):
    """A message, and for whom it is."""

    task_id: Uuid
    name: Text


class Nothing(Request):
    """A request without fields."""


class PauseJob(Request):
    """Whether a queue is paused."""

    job: Text
    paused: Flag


class ActOnSchedule(Request):
    """A verb for a schedule."""

    room: Room
    name: Text
    action: Literal["pause", "resume", "run", "delete"]


class OfRoom(Request):
    """A room."""

    room: Room


class OfLimit(OfRoom):
    """A limit of a room."""

    name: LimitTitle


async def submit(session: Session, fields: dict[str, Any]) -> Reply:
    """Put tasks in, all or none; with `wait` their results are pushed, with `brief` the answer has receipts."""
    ctx = session.live.ctx
    wanted = values.outline(Submit, fields, "tasks")
    tasks = await tasks_of(wanted.tasks)
    done = await submitting.submit(ctx, session.principal, wanted.room, [(task.job, task) for task in tasks])
    then = _awaited(session, done) if wanted.wait else None
    if wanted.brief:
        return Reply({"tasks": [receipt_data(one) for one in done]}, then)
    return Reply({"tasks": _without_payloads_if_large(session, await shown_submitted(ctx, done), done)}, then)


async def submit_by_itself(session: Session, fields: dict[str, Any]) -> Reply:
    """Put tasks in, each by itself: the answer has a receipt or a problem for each."""
    wanted = values.outline(SubmitEach, fields, "tasks")
    told = plain_tasks(wanted.tasks) or await values.each(TaskOfMany, wanted.tasks)
    good = [task for task in told if not isinstance(task, TreadleError)]
    taken = await submit_each(session.live.ctx, session.principal, wanted.room, good) if good else []
    then = _awaited(session, [one for one in taken if isinstance(one, Submitted)]) if wanted.wait else None
    outcomes = iter(taken)
    answers = [one if isinstance(one, TreadleError) else next(outcomes) for one in told]
    return Reply({"tasks": [_told(one) for one in answers]}, then)


def _told(one: SubmitOutcome) -> dict[str, Any]:
    return receipt_data(one) if isinstance(one, Submitted) else {"problem": problem_body(one)}


def _awaited(session: Session, done: list[Submitted]) -> Callable[[], None] | None:
    """Have the results pushed: at once, before anything else is awaited, so that an end that comes now finds it."""
    session.live.results.want(session, [item.task.id for item in done])
    known = [item.task.id for item in done if not item.created]
    return (lambda: session.live.results.look_soon(known)) if known else None


ITEM_BYTES = 1500
"""About what a task takes in an answer beside its payload."""


def _without_payloads_if_large(
    session: Session, shown: list[dict[str, Any]], done: list[Submitted]
) -> list[dict[str, Any]]:
    """Leave the payloads out when the answer would not fit into a frame; whoever submitted them has them.

    The tasks are in: refusing the answer, as for other large ones, would say that they are not.
    """
    size = sum(len(item.task.payload) + len(item.task.result or "") + ITEM_BYTES for item in done)
    if size > session.live.ctx.settings.max_body_bytes // 2:
        for data in shown:
            for name in ("payload", "result", "checkpoint"):
                del data[name]
    return shown


async def await_tasks(session: Session, fields: dict[str, Any]) -> Reply:
    """Push each of the tasks when it is terminal, also if it is so already; say which are not there yet."""
    ids = [TaskId(task_id) for task_id in values.validate(Ids, fields).ids]
    session.live.results.want(session, ids)
    return Reply({"missing": await session.live.results.look(session, ids)})


async def unawait(session: Session, fields: dict[str, Any]) -> Reply:
    """Push the results of these tasks no more; those that nobody awaits are no error."""
    session.live.results.drop(session, [TaskId(task_id) for task_id in values.validate(Ids, fields).ids])
    return Reply({})


async def get(session: Session, fields: dict[str, Any]) -> Reply:
    """Give a task as `TaskItem`, with its place in the queue. Raises `TaskNotFound`."""
    return Reply(await shown_task(session.live.ctx, TaskId(values.validate(One, fields).id)))


async def runs(session: Session, fields: dict[str, Any]) -> Reply:
    """Give a task's runs, first to last, each as `RunItem`. Raises `TaskNotFound`."""
    task_id = TaskId(values.validate(One, fields).id)
    return Reply({"items": await shown_runs(session.live.ctx, task_id)})


async def logs(session: Session, fields: dict[str, Any]) -> Reply:
    """Give the last 1,000 lines of a task, each as `LogItem`. Raises `TaskNotFound`."""
    task_id = TaskId(values.validate(One, fields).id)
    return Reply({"items": await shown_logs(session.live.ctx, task_id)})


async def history(session: Session, fields: dict[str, Any]) -> Reply:
    """Give what happened to a task, as far as it is known, each as `TaskEvent`. Raises `TaskNotFound`."""
    task_id = TaskId(values.validate(One, fields).id)
    return Reply({"items": await shown_events(session.live.ctx, task_id)})


async def whoami(session: Session, fields: dict[str, Any]) -> Reply:
    """Say who the session's token belongs to, as `Whoami`, and what it may do."""
    values.validate(Nothing, fields)
    return Reply(whoami_data(session.principal))


async def act(session: Session, fields: dict[str, Any]) -> Reply:
    """Apply a verb to a task, and give it as `TaskItem`. Raises as `steer_task`, and `ValidationFailed`."""
    wanted = values.validate(Act, fields)
    ctx = session.live.ctx
    for action, names in _ONLY_WITH.items():
        if wanted.action != action and (beyond := wanted.model_fields_set & names):
            raise ValidationFailed(f"{', '.join(sorted(beyond))}: only allowed with the action {action}")
    given: Steer = Rerun(if_version=wanted.if_version, from_step=wanted.from_step)
    if wanted.action == "resolve":
        given = Resolve(**wanted.model_dump(include=set(Resolve.model_fields)))
    task = await steer_task(ctx, session.principal, TaskId(wanted.id), wanted.action, given)
    return Reply(await shown_after(ctx, task))


_ONLY_WITH = {"resolve": {"status", "result", "error"}, "rerun": {"from_step"}}
"""Fields that one action alone takes."""


async def steps(session: Session, fields: dict[str, Any]) -> Reply:
    """Give the steps that a task keeps, from `offset` on, as many as fit, and the total. Raises `TaskNotFound`."""
    wanted = values.validate(StepsFrom, fields)
    items, total = await kept_steps(session.live.ctx, TaskId(wanted.id), offset=wanted.offset, limit=MOST_AT_ONCE)
    return Reply({"items": items, "total": total})


async def send(session: Session, fields: dict[str, Any]) -> Reply:
    """Send a task a message, and give it as `MessageItem`; a task that waits for it goes on.

    Raises as `send_message`.
    """
    wanted = values.validate(ToTask, fields)
    data, _ = await send_message(session.live.ctx, session.principal, TaskId(wanted.task_id), wanted.name, wanted)
    return Reply(data)


async def get_flow(session: Session, fields: dict[str, Any]) -> Reply:
    """Give a flow, as `FlowView`, with its first tasks and what they wait for. Raises `FlowNotFound`."""
    flow_id = values.validate(One, fields).id
    return Reply(await shown_flow(session.live.ctx, session.principal, flow_id))


async def act_on_many(session: Session, fields: dict[str, Any]) -> Reply:
    """Apply a verb to many tasks, in portions, and give `BulkResult`. Raises as `bulk`."""
    return Reply(await bulk(session.live.ctx, session.principal, values.validate(BulkAction, fields)))


async def edit_many(session: Session, fields: dict[str, Any]) -> Reply:
    """Edit many tasks, each with its own changes, and give `BulkResult`. Raises as `bulk_edit`."""
    given = values.outline(Edits, fields, "edits")
    return Reply(await bulk_edit(session.live.ctx, session.principal, given))


async def freeze(session: Session, fields: dict[str, Any]) -> Reply:
    """Name the tasks that a filter means at this moment, with their versions."""
    return Reply(await frozen(session.live.ctx, session.principal, values.validate(Freeze, fields)))


async def edit(session: Session, fields: dict[str, Any]) -> Reply:
    """Change a task that does not run, and give it as `TaskItem`. Raises as `edit_task`."""
    task_id = TaskId(values.validate(One, {"id": fields.pop("id", None)}).id)
    patch = values.validate(TaskPatch, fields)
    if patch.status is not None:
        raise ValidationFailed("status: an edit cannot change it; use the op action")
    ctx = session.live.ctx
    return Reply(await shown_after(ctx, await edit_task(ctx, session.principal, task_id, patch)))


async def register(session: Session, fields: dict[str, Any]) -> Reply:
    """Register a job that others serve, and give it as `JobItem`. Raises as `register_job`, and `ValidationFailed`."""
    values.check(fields)
    room = fields.pop("room", None)
    if not isinstance(room, str):
        raise ValidationFailed("room: name the job's room")
    ctx = session.live.ctx
    done = await register_job(ctx, session.principal, room, values.validate(JobRegister, fields), make_worker=False)
    return Reply(await shown_job(ctx, session.principal, done.job, done.worker_id))


async def job(session: Session, fields: dict[str, Any]) -> Reply:
    """Pause or resume a queue, and give its job as `JobItem`. Raises `JobNotFound` or `Forbidden`."""
    wanted = values.validate(PauseJob, fields)
    try:
        room = parse_job_name(wanted.job).room
    except ValueError as error:
        raise JobNotFound(str(error)) from None
    ctx = session.live.ctx
    command = PatchJob(principal=session.principal, job_name=wanted.job, room=room, paused=wanted.paused)
    return Reply(await shown_job(ctx, session.principal, await ctx.engine.run(command)))


async def drain(session: Session, fields: dict[str, Any]) -> Reply:
    """Ask a worker to drain, and give it as `WorkerItem`. Raises `WorkerNotFound` and `Forbidden`."""
    worker_id = WorkerId(values.validate(One, fields).id)
    return Reply(await drain_worker(session.live.ctx, session.principal, worker_id))


async def remove_worker(session: Session, fields: dict[str, Any]) -> Reply:
    """Remove a worker: what it still holds ends as lost. Raises `WorkerNotFound` and `Forbidden`."""
    worker_id = WorkerId(values.validate(One, fields).id)
    await session.live.ctx.engine.run(RemoveWorker(principal=session.principal, worker_id=worker_id))
    return Reply({})


async def schedule(session: Session, fields: dict[str, Any]) -> Reply:
    """Pause or resume a schedule, run its task now, or delete it. Raises as `steer_schedule`."""
    wanted = values.validate(ActOnSchedule, fields)
    return Reply(await steer_schedule(session.live.ctx, session.principal, wanted.room, wanted.name, wanted.action))


async def list_limits(session: Session, fields: dict[str, Any]) -> Reply:
    """Give the limits that are seen from a room, each as `LimitItem`, with their use and how many wait."""
    room = values.validate(OfRoom, fields).room
    found, _ = await shown_limits(session.live.ctx, room, visibility_of(session.principal))
    return Reply({"items": found})


async def put_limit(session: Session, fields: dict[str, Any]) -> Reply:
    """Make or change a limit, and give it as `LimitItem`. Raises as `set_limit`."""
    place = values.validate(OfLimit, {name: fields.pop(name, None) for name in OfLimit.model_fields})
    wanted = values.validate(LimitPut, fields)
    data, _ = await set_limit(session.live.ctx, session.principal, place.room, place.name, wanted)
    return Reply(data)


async def delete_limit(session: Session, fields: dict[str, Any]) -> Reply:
    """Delete a limit that neither open tasks nor jobs name. Raises `LimitNotFound`, `LimitInUse` and `Forbidden`."""
    place = values.validate(OfLimit, fields)
    command = DeleteLimit(principal=session.principal, room=place.room, name=place.name)
    await session.live.ctx.engine.run(command)
    return Reply({})


async def ping(session: Session, fields: dict[str, Any]) -> Reply:
    """Tell the time, and which of what the session watches has been changed by commits that it may not know of yet."""
    values.validate(Nothing, fields)
    behind = {sub: session.live.feeds.behind(feed) for sub, feed in session.feeds.items()}
    return Reply({"time": session.live.ctx.now(), "behind": {sub: late for sub, late in behind.items() if late}})


OPS: dict[str, Op] = {
    "submit": Op.of("submit", submit),
    "submit_each": Op.of("submit", submit_by_itself),
    "await": Op(await_tasks, Permission.READ_LIST),
    "unawait": Op(unawait, Permission.TOKEN),
    "get": Op.of("get", get),
    "runs": Op.of("runs", runs),
    "logs": Op.of("logs", logs),
    "steps": Op.of("steps", steps),
    "send": Op.of("send", send),
    "get_flow": Op.of("get_flow", get_flow),
    "history": Op.of("history", history),
    "whoami": Op.of("whoami", whoami),
    "action": Op.of("cancel", act),
    "actions": Op.of("actions", act_on_many),
    "edits": Op.of("edits", edit_many),
    "freeze": Op.of("freeze", freeze),
    "edit": Op(edit, Permission.CONTROL_TASK),  # over HTTP the same route also takes reports
    "register": Op.of("register", register),
    "job": Op.of("job", job),
    "schedule": Op.of("schedule", schedule),
    "limits": Op.of("limits", list_limits),
    "put_limit": Op.of("put_limit", put_limit),
    "delete_limit": Op.of("delete_limit", delete_limit),
    "drain_worker": Op.of("drain_worker", drain),
    "remove_worker": Op.of("close", remove_worker),
    "ping": Op(ping, Permission.TOKEN),
}
