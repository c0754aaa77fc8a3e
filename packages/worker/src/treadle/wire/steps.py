"""Steps: the results a task keeps of code run once, the waits of a task, and the messages sent to it."""

from typing import Annotated, Literal

from pydantic import Field

from treadle.wire.fields import TEN_YEARS, Amount, Flag, GivenJson, Instant, Json, Model, Request, Seconds, Text

MOST_STEPS = 10_000
"""The most steps that a task may keep."""

MOST_RESULT = 1_000_000
"""The most characters of a step's result, as JSON."""

MOST_WAITING = 1_000
"""The most messages that may wait for a task: sent, and not received yet."""

MOST_DATA = 100_000
"""The most characters of a message's data, as JSON."""

Occurrence = Annotated[int, Field(strict=True, ge=0, lt=MOST_STEPS)]
"""How many steps with the same name came before it in the same run."""


class StepRef(Request):
    """A reference to a step of a task, by its name and how often that name occurred before."""

    step: Text
    occurrence: Occurrence = 0


class StepDone(StepRef):
    """A step whose function has returned: its result is kept, and it is not run again."""

    function: Text | None = None
    """The function's name; a different one for the same step is a mismatch."""
    result: GivenJson = None
    seconds: Seconds | None = None
    """How long it took."""


class Suspended(StepRef):
    """The code sleeps or waits for a message: the run ends; the next begins when the time or the message comes."""

    seconds: Seconds = TEN_YEARS
    """Seconds after which the task goes on at the latest; a receive without a timeout uses the maximum."""
    receives: Flag = False
    """Whether it waits for a message with the step's name."""
    usage: Amount | None = None


StepKind = Literal["call", "sleep", "receive"]


class StepItem(Model):
    """A kept step; the last one may still be waiting."""

    step: str
    occurrence: int
    kind: StepKind
    function: str | None = None
    run_id: int
    """The run in which the step was kept, or began to wait."""
    result: Json = None
    """What the function returned, or the message's data."""
    at: Instant
    """When the step was kept, or began to wait."""
    seconds: float | None = None
    """How long the function took."""
    until: Instant | None = None
    """For a sleep or a receive: when it ends at the latest."""
    received_at: Instant | None = None
    """For a receive: when its message arrived; null while there is none, and after a timeout."""


class Received(Model):
    """The received message, as the step that keeps it; null while no message waits."""

    item: StepItem | None = None


class MessageSend(Request):
    """A message for a task: `POST /v1/tasks/{task_id}/messages/{name}`."""

    data: GivenJson = None
    id: Text | None = None
    """Messages with the same id, task and name count once; left out, the server makes an id."""


class MessageItem(Model):
    """A message as the server accepted it."""

    task_id: str
    name: str
    id: str
    sent_at: Instant
    sender: str
    received: bool
    """Whether a receive has consumed it."""
