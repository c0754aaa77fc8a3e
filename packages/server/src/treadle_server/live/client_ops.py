"""Clients' operations on the session socket: submit, await, read and steer."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from treadle.wire.bulk import BulkAction, Freeze
from treadle.wire.edits import TaskPatch
from treadle.wire.fields import MOST_OF_REQUEST, Flag, Request, Text
from treadle.wire.ids import TaskId, Uuid, WorkerId
from treadle.wire.jobs import JobRegister
from treadle.wire.limits import LimitPut, LimitTitle
from treadle.wire.names import Room
from treadle.wire.steps import MOST_STEPS, MessageSend
from treadle.wire.tasks import Rerun, Resolve, Steer, TaskOfMany
from treadle.wire.transitions import Action
from treadle_server.access.checks import visibility_of
from treadle_server.authorization.permission import Permission
from treadle_server.engine.commands import DeleteLimit, RemoveWorker, SubmitOutcome, Submitted
from treadle_server.errors import TreadleError, ValidationFailed
from treadle_server.live.session import Handler, Op, Reply, Session
from treadle_server.operations import submitting, values
from treadle_server.operations.bulk import Edits, bulk, bulk_edit
from treadle_server.operations.context import OperationContext
from treadle_server.operations.editing import edit_task, steer_task
from treadle_server.operations.encode import receipt_data, whoami_data
from treadle_server.operations.flows import shown_flow
from treadle_server.operations.jobs import pause_queue, register_job, shown_job
from treadle_server.operations.limits import set_limit, shown_limits
from treadle_server.operations.problems import problem_body
from treadle_server.operations.reading import shown_after, shown_submitted, shown_task
from treadle_server.operations.runs import shown_events, shown_logs, shown_runs
from treadle_server.operations.schedules import steer_schedule
from treadle_server.operations.steps import kept_steps, send_message
from treadle_server.operations.submitting import submit_each
from treadle_server.operations.task_lists import plain_tasks, tasks_of
from treadle_server.operations.windows import frozen
from treadle_server.operations.workers import drain_worker


class SubmitEach(Request):
    """Tasks to submit, each independently; they are validated one by one."""

    room: Room
    tasks: list[Any] = Field(min_length=1, max_length=MOST_OF_REQUEST)
    wait: Flag = False


class Submit(SubmitEach):
    """Tasks to submit, all or none."""

    brief: Flag = False


MOST_AT_ONCE = 500
"""Most steps in one answer."""


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
    """A request for a task's steps, from `offset` on."""

    offset: Annotated[int, Field(strict=True, ge=0, le=MOST_STEPS)] = 0


class ToTask(MessageSend):
    """A message and the task that it is for."""

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
    """Submit tasks, all or none; with `wait` their results are pushed, with `brief` the answer has receipts."""
    ctx = session.live.ctx
    wanted = values.outline(Submit, fields, "tasks")
    tasks = await tasks_of(wanted.tasks)
    done = await submitting.submit(ctx, session.principal, wanted.room, [(task.job, task) for task in tasks])
    then = _awaited(session, done) if wanted.wait else None
    if wanted.brief:
        return Reply({"tasks": [receipt_data(one) for one in done]}, then)
    return Reply({"tasks": _without_payloads_if_large(session, await shown_submitted(ctx, done), done)}, then)


async def submit_by_itself(session: Session, fields: dict[str, Any]) -> Reply:
    """Submit tasks, each independently: the answer has a receipt or a problem for each."""
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
    """Have the results pushed. Called before anything else is awaited, so that no task can end unnoticed."""
    session.live.results.want(session, [item.task.id for item in done])
    known = [item.task.id for item in done if not item.created]
    return (lambda: session.live.results.look_soon(known)) if known else None


ITEM_BYTES = 1500
"""The approximate size of a task in an answer, without its payload."""


def _without_payloads_if_large(
    session: Session, shown: list[dict[str, Any]], done: list[Submitted]
) -> list[dict[str, Any]]:
    """Leave the payloads out when the answer would not fit into a frame; the client has them.

    The tasks are submitted: an error, as for other answers that are too large, would suggest that they are not.
    """
    size = sum(len(item.task.payload) + len(item.task.result or "") + ITEM_BYTES for item in done)
    if size > session.live.ctx.settings.max_body_bytes // 2:
        for data in shown:
            for name in ("payload", "result", "checkpoint"):
                del data[name]
    return shown


async def await_tasks(session: Session, fields: dict[str, Any]) -> Reply:
    """Push each of the tasks once it has ended, also if it has already; the answer names those that don't exist yet."""
    ids = [TaskId(task_id) for task_id in values.validate(Ids, fields).ids]
    session.live.results.want(session, ids)
    return Reply({"missing": await session.live.results.look(session, ids)})


async def unawait(session: Session, fields: dict[str, Any]) -> Reply:
    """Stop pushing the results of these tasks; tasks that are not awaited are ignored."""
    session.live.results.drop(session, [TaskId(task_id) for task_id in values.validate(Ids, fields).ids])
    return Reply({})


async def get(session: Session, fields: dict[str, Any]) -> Reply:
    """Return a task as `TaskItem`, with its queue position. Raises `TaskNotFound`."""
    return Reply(await shown_task(session.live.ctx, TaskId(values.validate(One, fields).id)))


def listed(shown: Callable[[OperationContext, TaskId], Awaitable[list[dict[str, Any]]]]) -> Handler:
    """Return the operation that answers with all of a task's runs, log lines or events. Raises `TaskNotFound`."""

    async def of_task(session: Session, fields: dict[str, Any]) -> Reply:
        return Reply({"items": await shown(session.live.ctx, TaskId(values.validate(One, fields).id))})

    return of_task


async def whoami(session: Session, fields: dict[str, Any]) -> Reply:
    """Return the owner of the session's token and what it permits, as `Whoami`."""
    values.validate(Nothing, fields)
    return Reply(whoami_data(session.principal))


async def act(session: Session, fields: dict[str, Any]) -> Reply:
    """Apply a verb to a task, and return it as `TaskItem`. Raises as `steer_task` does, and `ValidationFailed`."""
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
"""Fields that are allowed with one action only."""


async def steps(session: Session, fields: dict[str, Any]) -> Reply:
    """Return a task's stored steps from `offset` on, as many as fit, and the total. Raises `TaskNotFound`."""
    wanted = values.validate(StepsFrom, fields)
    items, total = await kept_steps(session.live.ctx, TaskId(wanted.id), offset=wanted.offset, limit=MOST_AT_ONCE)
    return Reply({"items": items, "total": total})


async def send(session: Session, fields: dict[str, Any]) -> Reply:
    """Send a message to a task, and return it as `MessageItem`; a task that waits for it goes on.

    Raises as `send_message` does.
    """
    wanted = values.validate(ToTask, fields)
    data, _ = await send_message(session.live.ctx, session.principal, TaskId(wanted.task_id), wanted.name, wanted)
    return Reply(data)


async def get_flow(session: Session, fields: dict[str, Any]) -> Reply:
    """Return a flow, as `FlowView`, with its first tasks and their dependencies. Raises `FlowNotFound`."""
    flow_id = values.validate(One, fields).id
    return Reply(await shown_flow(session.live.ctx, session.principal, flow_id))


async def act_on_many(session: Session, fields: dict[str, Any]) -> Reply:
    """Apply a verb to many tasks, in portions, and return `BulkResult`. Raises as `bulk` does."""
    return Reply(await bulk(session.live.ctx, session.principal, values.validate(BulkAction, fields)))


async def edit_many(session: Session, fields: dict[str, Any]) -> Reply:
    """Edit many tasks, each with its own changes, and return `BulkResult`. Raises as `bulk_edit` does."""
    given = values.outline(Edits, fields, "edits")
    return Reply(await bulk_edit(session.live.ctx, session.principal, given))


async def freeze(session: Session, fields: dict[str, Any]) -> Reply:
    """Return the tasks that match a filter at this moment, with their versions."""
    return Reply(await frozen(session.live.ctx, session.principal, values.validate(Freeze, fields)))


async def edit(session: Session, fields: dict[str, Any]) -> Reply:
    """Edit a task that is not running, and return it as `TaskItem`. Raises as `edit_task` does."""
    task_id = TaskId(values.validate(One, {"id": fields.pop("id", None)}).id)
    patch = values.validate(TaskPatch, fields)
    if patch.status is not None:
        raise ValidationFailed("status: an edit cannot change it; use the op action")
    ctx = session.live.ctx
    return Reply(await shown_after(ctx, await edit_task(ctx, session.principal, task_id, patch)))


async def register(session: Session, fields: dict[str, Any]) -> Reply:
    """Register a job that others serve, and return it as `JobItem`.

    Raises as `register_job` does, and `ValidationFailed`.
    """
    values.check(fields)
    room = fields.pop("room", None)
    if not isinstance(room, str):
        raise ValidationFailed("room: name the job's room")
    ctx = session.live.ctx
    done = await register_job(ctx, session.principal, room, values.validate(JobRegister, fields), make_worker=False)
    return Reply(await shown_job(ctx, session.principal, done.job, done.worker_id))


async def job(session: Session, fields: dict[str, Any]) -> Reply:
    """Pause or resume a queue, and return its job as `JobItem`. Raises `JobNotFound` or `Forbidden`."""
    wanted = values.validate(PauseJob, fields)
    room = wanted.job.partition(":")[0]
    ctx = session.live.ctx
    return Reply(await pause_queue(ctx, session.principal, room, wanted.job, paused=wanted.paused))


async def drain(session: Session, fields: dict[str, Any]) -> Reply:
    """Ask a worker to drain, and return it as `WorkerItem`. Raises `WorkerNotFound` and `Forbidden`."""
    worker_id = WorkerId(values.validate(One, fields).id)
    return Reply(await drain_worker(session.live.ctx, session.principal, worker_id))


async def remove_worker(session: Session, fields: dict[str, Any]) -> Reply:
    """Remove a worker; the runs that it still holds end as lost. Raises `WorkerNotFound` and `Forbidden`."""
    worker_id = WorkerId(values.validate(One, fields).id)
    await session.live.ctx.engine.run(RemoveWorker(principal=session.principal, worker_id=worker_id))
    return Reply({})


async def schedule(session: Session, fields: dict[str, Any]) -> Reply:
    """Pause or resume a schedule, run its task now, or delete it. Raises as `steer_schedule` does."""
    wanted = values.validate(ActOnSchedule, fields)
    return Reply(await steer_schedule(session.live.ctx, session.principal, wanted.room, wanted.name, wanted.action))


async def list_limits(session: Session, fields: dict[str, Any]) -> Reply:
    """Return the limits visible from a room, each as `LimitItem`, with their use and the number of waiting tasks."""
    room = values.validate(OfRoom, fields).room
    found, _ = await shown_limits(session.live.ctx, room, visibility_of(session.principal))
    return Reply({"items": found})


async def put_limit(session: Session, fields: dict[str, Any]) -> Reply:
    """Create or change a limit, and return it as `LimitItem`. Raises as `set_limit` does."""
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
    """Return the time, and which subscriptions may lack changes that are committed, with the seconds since then."""
    values.validate(Nothing, fields)
    behind = {sub: session.live.feeds.behind(feed) for sub, feed in session.feeds.items()}
    return Reply({"time": session.live.ctx.now(), "behind": {sub: late for sub, late in behind.items() if late}})


OPS: dict[str, Op] = {
    "submit": Op.of("submit", submit),
    "submit_each": Op.of("submit", submit_by_itself),
    "await": Op(await_tasks, Permission.READ_LIST),
    "unawait": Op(unawait, Permission.TOKEN),
    "get": Op.of("get", get),
    "runs": Op.of("runs", listed(shown_runs)),
    "logs": Op.of("logs", listed(shown_logs)),
    "steps": Op.of("steps", steps),
    "send": Op.of("send", send),
    "get_flow": Op.of("get_flow", get_flow),
    "history": Op.of("history", listed(shown_events)),
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
