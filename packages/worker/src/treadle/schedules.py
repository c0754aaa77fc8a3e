"""When a task is put in by itself: `@task(schedule=Cron("*/5 * * * *"))` or `@task(schedule=Every(30))`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from treadle.errors import DefinitionError, InvalidArguments
from treadle.options import Options, seconds
from treadle.wire.schedules import Missed

if TYPE_CHECKING:
    from treadle.tasks import Task


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What both kinds of schedule say."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the task is called with."""
    jitter: float | timedelta = 0
    """By how much later than its tick a task is due at most, at random."""
    missed: Missed = "late"
    """What becomes of ticks that were missed: one late run for all of them, or `skip`, none."""
    name: str | None = None
    """The schedule's name in the job's room; `category:name` of the job when it is left out."""
    options: Options | None = None
    """How each of its tasks is run; they have no id, delay or time of their own."""
    deadline: float | timedelta | None = None
    """How long after its tick a task is of use."""

    def __post_init__(self) -> None:
        if self.missed not in {"late", "skip"}:
            raise DefinitionError(f"missed={self.missed!r} of a schedule must be 'late' or 'skip'")
        if (seconds(self.jitter) or 0) < 0:
            raise DefinitionError(f"jitter={self.jitter!r} of a schedule is a duration, 0 or more")
        try:
            template(self.options, self.deadline)
        except InvalidArguments as error:
            raise DefinitionError(str(error)) from None

    def timing(self) -> dict[str, Any]:
        """Return when, as it goes over the wire."""
        raise NotImplementedError


@dataclass(frozen=True)
class Cron(_Plan):
    """Ticks by a cron expression in the time zone `tz`: five fields, or six with the second first.

    The server knows the expressions and the zones, and refuses what is none when the worker starts. Raises
    `DefinitionError` for another number of fields.
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str) or len(self.expression.split()) not in {5, 6}:
            raise DefinitionError(
                f"Cron({self.expression!r}) has not five fields (minute hour day-of-month month day-of-week), nor six"
                " with the second first"
            )

    def timing(self) -> dict[str, Any]:
        """Return when, as it goes over the wire."""
        return {"cron": self.expression, "zone": self.tz}


@dataclass(frozen=True)
class Every(_Plan):
    """Ticks every `interval` seconds (or a timedelta), one second at least; the phase is kept.

    Raises `DefinitionError` for a shorter one.
    """

    interval: float | timedelta

    def __post_init__(self) -> None:
        super().__post_init__()
        if (seconds(self.interval) or 0) < 1:
            raise DefinitionError(f"Every({self.interval!r}) is shorter than one second")

    def timing(self) -> dict[str, Any]:
        """Return when, as it goes over the wire."""
        return {"interval": float(seconds(self.interval) or 0)}


Schedule: TypeAlias = Cron | Every


def template(options: Options | None, deadline: float | timedelta | None) -> dict[str, Any]:
    """Return what each task of a schedule is like, as it goes over the wire.

    Raises `InvalidArguments` for an option that is one task's alone, and for a deadline that is not after the tick.
    """
    said = {} if options is None else options.wire()
    if unfit := sorted(said.keys() & _OF_ONE_TASK):
        raise InvalidArguments(
            f"{', '.join(unfit)}: not of a schedule, whose tasks come with its ticks; their deadline is given beside"
            " the options, in seconds from the tick"
        )
    if deadline is None:
        return said
    if (after := seconds(deadline) or 0) <= 0:
        raise InvalidArguments(f"deadline={deadline!r} of a schedule is a duration, more than 0")
    return {**said, "deadline": float(after)}


_OF_ONE_TASK = frozenset({"id", "delay", "scheduled_at", "deadline"})


def registration(task: "Task[..., Any]") -> tuple[str, dict[str, Any]]:
    """Return the schedule's name, and the body that sets it.

    Its hash says what the code says: as long as that stays the same, a worker that starts changes nothing, and what
    people have changed since stays. Raises `InvalidArguments` for what the task can't be called with.
    """
    plan = task.schedule
    assert plan is not None
    body: dict[str, Any] = {
        "job": task.full_name,
        "payload": task.signature.payload((), plan.arguments),
        "jitter": float(seconds(plan.jitter) or 0),
        "missed": plan.missed,
        **plan.timing(),
        **template(plan.options, plan.deadline),
    }
    said = json.dumps(body, sort_keys=True).encode()
    return plan.name or f"{task.job.category}:{task.job.name}", body | {"content_hash": sha256(said).hexdigest()}


def checked(function_name: str, schedule: object) -> "Schedule | None":
    """Return a decorator's schedule. Raises `DefinitionError` when it is none."""
    if schedule is None or isinstance(schedule, Cron | Every):
        return schedule
    raise DefinitionError(f"@task of {function_name}: schedule={schedule!r} is neither Cron(…) nor Every(…)")
