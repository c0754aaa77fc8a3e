"""Frames of the session socket: docs/protocol.md in types.

A frame is one JSON object in one text message: `{"items": [...]}`. Items that ask carry a number `n`; the answer
carries it back as `re`. What the server sends by itself carries `push`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from treadle.wire.fields import Request, Text
from treadle.wire.ids import Uuid
from treadle.wire.names import Room
from treadle.wire.tasks import TaskFilter

PROTOCOL = 1

Topic = Literal["counts", "jobs", "workers", "targets", "tasks", "task"]
Order = Literal["position", "newest", "oldest", "updated"]


class Since(Request):
    """Where a stream was left."""

    stream: str
    seq: int


class Hello(Request):
    """The first item that a client sends."""

    op: Literal["hello"] = "hello"
    n: int = 0
    protocol: int = PROTOCOL
    token: str | None = None
    """For those who cannot set the Authorization header."""
    client: Text | None = None


class Window(Request):
    """A part of the task list that an observer looks at."""

    filter: TaskFilter = Field(default_factory=TaskFilter)
    order: Order = "newest"
    after: str | None = None
    """The id of the task before the window's first one; null for the list's head."""
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class Watch(Request):
    """Subscribes to a topic under a name of the client's choosing."""

    op: Literal["watch"] = "watch"
    n: int
    sub: Text
    topic: Topic
    window: Window | None = None
    task_id: Uuid | None = None
    room: Room | None = None


class Unwatch(Request):
    """Ends a subscription."""

    op: Literal["unwatch"] = "unwatch"
    n: int
    sub: Text


class Every(Request):
    """Subscribes to each transition."""

    op: Literal["every"] = "every"
    n: int
    room: Room | None = None
    job: Text | None = None
    since: Since | None = None
    on: bool = True


Item = dict[str, Any]


class Frame(Request):
    """What one text message holds."""

    items: list[Item]
