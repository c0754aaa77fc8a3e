"""Frames of the session socket: docs/protocol.md in types.

A frame is one JSON object in one text message: `{"items": [...]}`. Items that ask carry a number `n`; the answer
carries it back as `re`. What the server sends by itself carries `push`.
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
"""What `every` tells of."""

Push = Literal[
    "claim", "cancel", "pause", "gone", "drain", "result", "snapshot", "delta", "events", "reload",
]  # fmt: skip
"""What a server sends by itself."""

MOST_SHOWN = 10_000
"""Jobs, workers, targets or schedules that an observer is shown at most; `total` tells how many there are."""

MOST_RECENT = 500
"""Transitions that a server keeps in brief."""

LOGGED_TASKS = 10
"""Of how many tasks the topic `logs` has the lines: those of the window's filter that run, then what changed last."""


class Since(Request):
    """Where a stream was left."""

    stream: str
    seq: Integer


class Hello(Request):
    """The first item that a client sends."""

    op: Literal["hello"] = "hello"
    n: Integer = 0
    protocol: Integer = PROTOCOL
    token: str | None = None
    """For those who cannot set the Authorization header."""
    client: Text | None = None


class Window(Request):
    """A part of the task list that an observer looks at.

    It may hang on a task, one of `first`, `after` and `before`: on the place that the task has in the order when it is
    looked up, which stays when the task moves on. One that does not exist means the list's head.
    """

    filter: TaskFilter = Field(default_factory=TaskFilter)
    order: Order = "newest"
    first: Uuid | None = None
    """The id of the window's first task; when it does not match, the window begins where it would stand."""
    after: Uuid | None = None
    """The id of the task before the window's first one."""
    before: Uuid | None = None
    """The id of the task behind the window's last one: the window has the `limit` tasks before it."""
    offset: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0
    """How many tasks are passed over, from the anchor or the list's head on; each of them is read. Without an anchor
    those behind the window are read instead, where they are fewer and how many match is known."""
    limit: Annotated[int, Field(strict=True, ge=1, le=MOST_OF_PAGE)] = 100

    @model_validator(mode="after")
    def _one_anchor(self) -> Self:
        if sum(name is not None for name in (self.first, self.after, self.before)) > 1:
            raise ValueError("give one of first, after and before")
        if self.before is not None and self.offset:
            raise ValueError("offset: not with before; name another task")
        return self


class WindowPage(Model):
    """A window as it was when it was asked for, once."""

    items: list[TaskItem]
    total: int
    """How many tasks match in all."""
    total_is_capped: bool = False
    ahead: int = 0
    """How many of them stand before the window's first."""
    ahead_is_capped: bool = False
    is_partial: bool = False
    """Whether tasks may be missing, since only so many were looked through for those that match."""


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
    """Where the stream was left: what was missed is sent first."""
    recent: Annotated[int, Field(strict=True, ge=0, le=MOST_RECENT)] = 0
    """With `brief`: how many of the last transitions before now are sent first."""
    brief: Flag = False
    """Whether events have only the few fields of a line on a screen, and heartbeats are left out."""
    on: Flag = True

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.recent and not self.brief:
            raise ValueError("recent: only with brief, in which the last transitions are kept")
        if self.recent and self.since is not None:
            raise ValueError("give since or recent, not both")
        return self


Item = dict[str, Any]
"""One request, answer or push, before its own model has read it."""


class Frame(Request):
    """What one text message holds."""

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
