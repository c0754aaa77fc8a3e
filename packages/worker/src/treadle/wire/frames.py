"""Frames of the session socket: docs/protocol.md in types.

A frame is one JSON object in one text message: `{"items": [...]}`. A request carries a number `n`, which its
answer repeats as `re`. Messages that the server sends unasked carry `push`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from treadle.wire.fields import Flag, Integer, Model, Request, Text
from treadle.wire.filters import Order, TaskFilter
from treadle.wire.ids import Uuid
from treadle.wire.names import Room
from treadle.wire.pages import MOST_OF_PAGE
from treadle.wire.tasks import TaskItem

PROTOCOL = 1
"""The version of the protocol, which the hello names."""

Topic = Literal["counts", "jobs", "workers", "targets", "schedules", "limits", "failures", "tasks", "task", "logs"]
"""What an observer may watch."""

EventType = Literal["task.available", "task.updated", "job.updated", "worker.updated", "schedule.updated"]
"""The events that `every` sends."""

Push = Literal[
    "claim", "cancel", "pause", "gone", "drain", "result", "snapshot", "delta", "events", "reload",
]  # fmt: skip
"""The messages that a server sends unasked."""

MOST_SHOWN = 10_000
"""The most jobs, workers, targets or schedules that an observer is shown; `total` gives how many there are."""

MOST_RECENT = 500
"""Recent transitions that a server keeps in brief."""

LOGGED_TASKS = 10
"""How many tasks the topic `logs` covers: those of the window's filter that run, then those that changed last."""


class Since(Request):
    """The position at which a client left a stream."""

    stream: str
    seq: Integer


class Hello(Request):
    """The first item that a client sends."""

    op: Literal["hello"] = "hello"
    n: Integer = 0
    protocol: Integer = PROTOCOL
    token: str | None = None
    """For clients that cannot set the Authorization header."""
    client: Text | None = None


class Window(Request):
    """A part of the task list that an observer looks at.

    It may be anchored to a task by one of `first`, `after` and `before`. The anchor is the task's place in the order at
    the time of the lookup, and stays there when the task moves. A task that does not exist means the head of the list.
    """

    filter: TaskFilter = Field(default_factory=TaskFilter)
    order: Order = "newest"
    first: Uuid | None = None
    """The id of the window's first task; if it does not match the filter, the window begins where it would be."""
    after: Uuid | None = None
    """The id of the task before the window's first one."""
    before: Uuid | None = None
    """The id of the task after the window's last one: the window has the `limit` tasks before it."""
    offset: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0
    """How many tasks to skip, from the anchor or the head of the list; each is read. Without an anchor, the tasks
    behind the window are read instead if they are fewer and the number of matches is known."""
    limit: Annotated[int, Field(strict=True, ge=1, le=MOST_OF_PAGE)] = 100

    @model_validator(mode="after")
    def _one_anchor(self) -> Self:
        if sum(name is not None for name in (self.first, self.after, self.before)) > 1:
            raise ValueError("give only one of first, after and before")
        if self.before is not None and self.offset:
            raise ValueError("offset: not allowed with before; name another task")
        return self


class WindowPage(Model):
    """A window as it was at the moment of the request."""

    items: list[TaskItem]
    total: int
    """How many tasks match in all."""
    total_is_capped: bool = False
    ahead: int = 0
    """How many of them come before the window's first."""
    ahead_is_capped: bool = False
    is_partial: bool = False
    """Whether tasks may be missing because the search for matches stopped early."""


class Watch(Request):
    """Subscribes to a topic under a name of the client's choosing."""

    op: Literal["watch"] = "watch"
    n: Integer
    sub: Text
    topic: Topic
    window: Window | None = None
    task_id: Uuid | None = None
    room: Room | None = None


class Unwatch(Request):
    """Ends a subscription."""

    op: Literal["unwatch"] = "unwatch"
    n: Integer
    sub: Text


class Every(Request):
    """Subscribes to each transition."""

    op: Literal["every"] = "every"
    n: Integer
    room: Room | None = None
    job: Text | None = None
    task_id: Uuid | None = None
    since: Since | None = None
    """Where the stream was left: missed events are sent first."""
    recent: Annotated[int, Field(strict=True, ge=0, le=MOST_RECENT)] = 0
    """With `brief`: how many of the last transitions before now are sent first."""
    brief: Flag = False
    """Whether events have only the few fields of a line on a screen, and heartbeats are left out."""
    on: Flag = True

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.recent and not self.brief:
            raise ValueError("recent: only allowed with brief, which keeps the last transitions")
        if self.recent and self.since is not None:
            raise ValueError("give since or recent, not both")
        return self


Item = dict[str, Any]
"""One request, answer or push, before its own model has read it."""


class Frame(Request):
    """The content of one text message."""

    items: list[Item]


__all__ = [
    "LOGGED_TASKS",
    "MOST_SHOWN",
    "PROTOCOL",
    "Every",
    "Frame",
    "Hello",
    "Item",
    "Order",
    "Since",
    "Topic",
    "Unwatch",
    "Watch",
    "Window",
    "WindowPage",
]
