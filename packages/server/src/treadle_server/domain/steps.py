"""The steps that a task keeps and the messages that are sent to it: their comparison, and their bounds."""

import json
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal

from treadle.wire.steps import MOST_DATA, MOST_RESULT, MOST_STEPS, MOST_WAITING, StepKind
from treadle_server.domain.encryption import digests_in, identity, is_sealed
from treadle_server.domain.tasks import Task
from treadle_server.errors import TaskConflict, TooManyRequests, ValidationFailed

StepKey = tuple[int, str, int]
"""(task seq, name, how often the name has occurred before)."""

MessageKey = tuple[int, str, str]
"""(task seq, name, id)."""


@dataclass(slots=True)
class Step:
    """A kept step, with one field for each column of the table. JSON is text."""

    task_seq: int
    number: int
    name: str
    occurrence: int
    kind: StepKind
    function: str | None
    run_id: int
    result: str | None
    at: datetime
    seconds: float | None = None
    until: datetime | None = None
    received_at: datetime | None = None

    @property
    def key(self) -> StepKey:
        """Return the unique key of the step."""
        return (self.task_seq, self.name, self.occurrence)

    def is_same(self, other: "Step") -> bool:
        """Return whether the other one repeats this step."""
        return (self.kind, self.function) == (other.kind, other.function) and same_json(self.result, other.result)


STEP_FIELDS = tuple(field.name for field in fields(Step))


@dataclass(slots=True)
class Message:
    """A message for a task, with one field for each column of the table. JSON is text."""

    task_seq: int
    number: int
    name: str
    id: str
    data: str | None
    sender: str
    sent_at: datetime
    step: int | None = None
    """The number of the step that received it; None while it waits."""

    @property
    def key(self) -> MessageKey:
        """Return the unique key of the message."""
        return (self.task_seq, self.name, self.id)


MESSAGE_FIELDS = tuple(field.name for field in fields(Message))


def same_json(one: str | None, other: str | None) -> bool:
    """Return whether two JSON texts have the same value, however a database wrote them; sealed ones go by digest."""
    if one == other or one is None or other is None:
        return one == other
    if is_sealed(one) and is_sealed(other):
        return not _identities(one).isdisjoint(_identities(other))
    return _canonical(one) == _canonical(other)


def _identities(text: str) -> set[str | None]:
    return {identity(text, number) for number in range(digests_in(text))}


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text, parse_int=_number, parse_float=_number), sort_keys=True)


def _number(digits: str) -> str:
    """Return a number as text that can't be a JSON string: as in PostgreSQL, 1e2 and 100.0 are 100, and -0.0 is 0."""
    number = Decimal(digits)
    plain = format(number, "f") if number else "0"
    return "\0" + (plain.rstrip("0").rstrip(".") if "." in plain else plain)


def check_step(task: Task, result: str | None) -> None:
    """Raise `ValidationFailed` if the result is too large, or the task has too many steps."""
    if result is not None and len(result) > MOST_RESULT:
        raise ValidationFailed(
            f"result: a step keeps at most {MOST_RESULT:,} characters of JSON, not {len(result):,}: upload a"
            " larger result as an artifact, and return its name"
        )
    if task.steps >= MOST_STEPS:
        raise ValidationFailed(
            f"step: a task may have at most {MOST_STEPS:,} steps: do more in each step, or submit further tasks"
        )


def check_repeated(kept: Step, repeated: Step) -> None:
    """Raise `TaskConflict` unless a report of a kept step repeats it unchanged."""
    if not kept.is_same(repeated):
        raise TaskConflict(
            f"step {kept.name!r}, number {kept.occurrence} of that name, was kept in run {kept.run_id} with another"
            " result: read the kept steps before running one"
        )


def check_message(data: str | None, waiting: int) -> None:
    """Raise `ValidationFailed` if the data is too large, and `TooManyRequests` if too many messages wait."""
    if data is not None and len(data) > MOST_DATA:
        raise ValidationFailed(
            f"data: a message has at most {MOST_DATA:,} characters of JSON, not {len(data):,}: send where to find it"
        )
    if waiting >= MOST_WAITING:
        raise TooManyRequests(
            f"{waiting:,} messages already wait for the task; it takes more once it has received some", retry_after=5
        )
