"""Steps: what a task's code has done once and keeps, what it waits for, and the messages that are sent to it."""

from typing import Annotated, Literal

from pydantic import Field

from treadle.wire.fields import TEN_YEARS, Amount, Flag, GivenJson, Instant, Json, Model, Request, Seconds, Text

MOST_STEPS = 10_000
"""Steps that a task keeps at most."""

MOST_RESULT = 1_000_000
"""Characters of a step's result, as JSON."""

MOST_WAITING = 1_000
"""Messages that wait for a task at most: sent, and not received yet."""

MOST_DATA = 100_000
"""Characters of a message's data, as JSON."""

Occurrence = Annotated[int, Field(strict=True, ge=0, lt=MOST_STEPS)]
"""How often its name came before it in the same run."""


class StepRef(Request):
    """Which step of a task: steps are told apart by their name and how often that came before."""

    step: Text
    occurrence: Occurrence = 0


class StepDone(StepRef):
    """A step whose function has returned: what it came to is kept, and it is not run again."""

    function: Text | None = None
    """The function's name; another one under the same step is a mismatch."""
    result: GivenJson = None
    seconds: Seconds | None = None
    """How long it took."""


class Suspended(StepRef):
    """The code sleeps, or waits for a message: the run ends, and the next one begins when the time or it has come."""

    seconds: Seconds = TEN_YEARS
    """After which the task goes on, at the latest; a receive without a timeout waits as long as can be said."""
    receives: Flag = False
    """Whether it waits for a message, of the step's name."""
    usage: Amount | None = None


StepKind = Literal["call", "sleep", "receive"]


class StepItem(Model):
    """A kept step; the last one may still wait."""

    step: str
    occurrence: int
    kind: StepKind
    function: str | None = None
    run_id: int
    """The run in which it was kept, or began to wait."""
    result: Json = None
    """What the function returned, or the message's data."""
    at: Instant
    """When it was kept, or began to wait."""
    seconds: float | None = None
    """How long the function took."""
    until: Instant | None = None
    """Of a sleep or a receive: when it is over at the latest."""
    received_at: Instant | None = None
    """Of a receive: when its message came; null while there is none, and after a timeout."""


class Received(Model):
    """What was received: the step that keeps it, or null while no message waits."""

    item: StepItem | None = None


class MessageSend(Request):
    """A message for a task: `POST /v1/tasks/{task_id}/messages/{name}`."""

    data: GivenJson = None
    id: Text | None = None
    """The same id twice, of one task and name, counts once; left out, the server makes one."""


class MessageItem(Model):
    """A message as it was taken."""

    task_id: str
    name: str
    id: str
    sent_at: Instant
    sender: str
    received: bool
    """Whether a receive has taken it."""
