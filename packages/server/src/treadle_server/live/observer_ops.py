"""Observers' operations on the session socket: topics, windows, and all transitions."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from treadle.wire.frames import Every, Unwatch, Watch, Window
from treadle.wire.ids import TaskId
from treadle_server.access.checks import own_workers, sees
from treadle_server.authorization.permission import Permission
from treadle_server.engine.commands.jobs import check_room
from treadle_server.errors import TooManyRequests, ValidationFailed
from treadle_server.live.events import EventListener
from treadle_server.live.logs_view import LogsView
from treadle_server.live.session import Op, Reply, Session
from treadle_server.live.task_windows import TasksView
from treadle_server.live.views import (
    CountsView,
    FailuresView,
    JobsView,
    LimitsView,
    SchedulesView,
    TargetsView,
    TaskView,
    View,
    WorkersView,
)
from treadle_server.operations import values
from treadle_server.operations.windows import seen_window
from treadle_server.store.read import filters

MOST_SUBSCRIPTIONS = 100
"""Most subscriptions of one session; more are rejected."""


async def watch(session: Session, fields: dict[str, Any]) -> Reply:
    """Subscribe to a topic under a name; a subscription of that name is replaced.

    Raises `TooManyRequests` beyond `MOST_SUBSCRIPTIONS`, `InvalidRoomId`, and `ValidationFailed`.
    """
    wanted = values.validate(Watch, {**fields, "n": 0})
    names, this = session.feeds.keys() | session.opening.keys(), Counter((wanted.sub,))
    if wanted.sub not in names and len(names) >= MOST_SUBSCRIPTIONS:
        raise TooManyRequests(f"a session may have at most {MOST_SUBSCRIPTIONS} subscriptions; unwatch some")
    # Other requests of the same frame run concurrently, and have to count it.
    session.opening += this
    try:
        feed = await session.live.feeds.open(*_view(session, wanted))
    except BaseException:
        session.opening -= this
        raise

    def subscribe() -> None:
        session.opening -= this
        session.live.unsubscribe(session, wanted.sub)
        if not session.closed.is_set():
            session.feeds[wanted.sub] = feed
            session.live.feeds.subscribe(feed, session.number, wanted.sub, session.outbox.put)

    return Reply({}, subscribe)


def _view(session: Session, wanted: Watch) -> tuple[str, Callable[[], View]]:
    """Return the key under which the view is shared, and a function that makes it."""
    room = None if wanted.room is None else check_room(wanted.room)
    ctx, visibility, own = session.live.ctx, session.visibility, own_workers(session.principal)
    # Users with the same visibility share a view.
    of = f"{wanted.topic} {room}" if visibility is None else f"{wanted.topic} {room} {visibility}"
    match wanted.topic:
        case "counts":
            return of, lambda: CountsView(room, visibility)
        case "jobs":
            return of, lambda: JobsView(room, visibility, rates=ctx.rates)
        case "workers":
            lost_after = ctx.settings.worker_timeout_seconds
            key = of if visibility is None else f"{of} {own}"
            return key, lambda: WorkersView(room, visibility, lost_after=lost_after, absences=ctx.absences, own=own)
        case "targets":
            return of, lambda: TargetsView(room, visibility)
        case "schedules":
            return of, lambda: SchedulesView(room, visibility, tokens_at=ctx.engine.tokens_at)
        case "limits":
            return of, lambda: LimitsView(room, visibility)
        case "failures":
            return of, lambda: FailuresView(room, visibility, now=ctx.now)
        case "tasks":
            window = _window(wanted, room)
            return f"{of} {window.model_dump_json()}", lambda: TasksView(
                seen_window(window, visibility), session.live.totals
            )
        case "logs":
            meant = _window(wanted, room).filter
            return f"{of} {meant.model_dump_json()}", lambda: LogsView(filters.seen(meant, visibility))
        case "task":
            if wanted.task_id is None:
                raise ValidationFailed("task_id: required for the topic task")
            task_id = TaskId(wanted.task_id)
            return _one_task(session, task_id)


def _one_task(session: Session, task_id: TaskId) -> tuple[str, Callable[[], View]]:
    now = session.live.ctx.now
    if session.visibility is None:
        return f"task {task_id}", lambda: TaskView(task_id, now)
    # Whether the user sees it depends on who submitted it, not on the rooms alone.
    asker = session.principal
    key = f"task {task_id} of session {session.number}"
    return key, lambda: TaskView(task_id, now, lambda task: sees(asker, task))


def _window(wanted: Watch, room: str | None) -> Window:
    window = wanted.window or Window()
    if room is not None and window.filter.room is None:
        window = window.model_copy(update={"filter": window.filter.model_copy(update={"room": room})})
    return window


async def unwatch(session: Session, fields: dict[str, Any]) -> Reply:
    """End the subscription of this name; nothing happens when there is none."""
    session.live.unsubscribe(session, values.validate(Unwatch, {**fields, "n": 0}).sub)
    return Reply({})


async def every(session: Session, fields: dict[str, Any]) -> Reply:
    """Begin or end the push of all transitions; return the server's `stream` and the number of its last transition."""
    wanted = values.validate(Every, {**fields, "n": 0})
    live = session.live
    if session.listener is not None:
        live.events.remove(session.listener)
        session.listener = None
    hub = live.ctx.engine.hub
    ok = {"stream": hub.stream, "seq": hub.seq}
    if not wanted.on:
        return Reply(ok)
    listener = session.listener = EventListener(
        session.outbox.put, wanted.room, wanted.job, wanted.task_id, wanted.brief, session.visibility
    )
    return Reply(ok, lambda: live.events.add(listener, wanted.since, wanted.recent))


OPS: dict[str, Op] = {
    "watch": Op(watch, Permission.READ_LIST),
    "unwatch": Op(unwatch, Permission.TOKEN),
    "every": Op(every, Permission.READ_LIST),
}
