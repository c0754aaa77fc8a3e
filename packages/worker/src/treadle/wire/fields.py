"""Types of fields that several models share, with their bounds."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
)

from treadle.wire.names import MOST_ORIGIN
from treadle.wire.status import Reason
from treadle.wire.tags import check
from treadle.wire.values import LEAST_INTEGER, MOST_INTEGER, NUL, BadValue, fault


def _no_nul(text: str) -> str:
    """Refuse NUL; of lone surrogates pydantic makes no text with constraints."""
    if "\x00" in text:
        raise ValueError(NUL)
    return text


def _kept(value: Any) -> Any:
    """Refuse what JSON can't carry or a database can't keep."""
    if (found := fault(value)) is not None:
        raise BadValue(found)
    return value


_REASONS = frozenset(Reason)


def _known(reason: Reason) -> Reason:
    """Refuse a word that no reason is: read of an answer it may be a newer server's."""
    if reason not in _REASONS:
        raise ValueError(f"a reason is one of {', '.join(sorted(_REASONS))}")
    return reason


GivenReason = Annotated[Reason, AfterValidator(_known)]
"""A reason as a worker gives it."""

LONGEST_TEXT = 255
"""Characters of a short text: a name, a group, a pool."""

Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT, min_length=1), AfterValidator(_no_nul)]
"""A short text of 1 to 255 characters without NUL."""

Origin = Annotated[str, StringConstraints(max_length=MOST_ORIGIN, min_length=1), AfterValidator(_no_nul)]
"""Where a job's function stands: `module:qualname`."""

LONGEST_OUTPUT = 1_000_000
"""Characters of what code said: a message, a traceback, a line that it logged."""

LongText = Annotated[str, StringConstraints(max_length=LONGEST_OUTPUT), AfterValidator(_no_nul)]
"""A message or a traceback, up to a million characters."""

# Numbers and flags are strict: `true` is no 1, "5" no 5 and "yes" no true, for a guess would hide the sender's mistake.

Flag = Annotated[bool, Field(strict=True)]
"""True or false, and nothing that stands for it."""

TEN_YEARS = 315_360_000
"""Seconds of the longest duration that a request may name."""

Seconds = Annotated[float, Field(strict=True, ge=0, le=TEN_YEARS, allow_inf_nan=False)]
"""A duration in seconds, up to ten years."""

PositiveSeconds = Annotated[float, Field(strict=True, gt=0, le=TEN_YEARS, allow_inf_nan=False)]
"""The same, and more than 0."""

Priority = Annotated[int, Field(strict=True, ge=-1_000_000, le=1_000_000)]
"""Higher goes first; 0 unless said otherwise."""

MOST_WEIGHT = 1_000_000
"""The largest weight that a task, a worker or a limit can have."""

Weight = Annotated[int, Field(strict=True, ge=1, le=MOST_WEIGHT)]
"""How much of a worker's concurrency a task takes."""

MOST_OF_REQUEST = 10_000
"""Items of one request, such as tasks, ids or reports."""

MOST_TRIES = 1_000_000
"""Retries or requeues that a task may be allowed."""

MOST_MULTIPLIER, MOST_RANDOMIZATION = 100, 10
"""By how much a retry's delay may be longer than the one before, and at random."""

Budget = Annotated[int, Field(strict=True, ge=0, le=MOST_TRIES)]
"""How many retries or requeues are allowed."""

MOST_USAGE = 1e15

Amount = Annotated[float, Field(strict=True, ge=0, le=MOST_USAGE, allow_inf_nan=False)]
"""Usage and its limit, in whatever unit the task counts."""

Integer = Annotated[int, Field(strict=True, ge=LEAST_INTEGER, le=MOST_INTEGER)]
"""A whole number of the protocol's own: signed, 64 bits."""

RunNumber = Annotated[int, Field(strict=True, ge=0, le=MOST_INTEGER)]
"""A run's number as a client names it."""

Version = Integer
"""A task's version as a client remembers it."""

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
"""A part of a whole, from 0 to 1."""

JsonObject = dict[str, Any]
"""A JSON object as the server shows it."""

Json = JsonValue
"""Any JSON value."""

LOOKED_THROUGH = AfterValidator(_kept)
"""Marks a field whose value its model looks through."""

GivenObject = Annotated[JsonObject, LOOKED_THROUGH]
"""A JSON object as a client gives it: one that can be kept (`treadle.wire.values`)."""


def few(most: int) -> BeforeValidator:
    """Refuse an object of more members before each is looked at: of all that are wrong pydantic keeps an error.

    What it returns raises `ValueError`, which pydantic tells.
    """

    def check(value: object) -> object:
        if isinstance(value, dict) and len(value) > most:
            raise ValueError(f"{len(value)} names, and it takes {most} at most")
        return value

    return BeforeValidator(check)


_TAGS = 64

Tags = Annotated[dict[Text, Any], Field(max_length=_TAGS), few(_TAGS), AfterValidator(_kept), AfterValidator(check)]
"""JSON values by name, to find a task by: at most 64 names, and bounded as `treadle.wire.tags` says."""

GivenJson = Annotated[Any, LOOKED_THROUGH]
"""A value as a client gives it: JSON that can be kept (`treadle.wire.values`), which sees to both in one look."""

Instant = AwareDatetime


def _no_bare_number(value: object) -> object:
    """Refuse a number, quoted or not: pydantic would take it for seconds or milliseconds, as its size suggests."""
    if isinstance(value, int | float) or (isinstance(value, str) and "-" not in value[1:]):
        raise ValueError("write the time as in 2026-01-31T12:00:00Z")
    return value


GivenInstant = Annotated[AwareDatetime, BeforeValidator(_no_bare_number)]
"""An instant as a client gives it: ISO 8601 with its offset from UTC."""

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""The first instant that a server keeps."""

LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Before which those are that it keeps: every database holds them, and a day more or less than each."""


class Model(BaseModel):
    """What every answer of the server is made of: unknown fields are ignored, so that newer servers can add some."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore", populate_by_name=True, frozen=True, defer_build=True
    )


class Request(BaseModel):
    """What a client sends: an unknown field is an error, so that a misspelt option is never silently dropped."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", populate_by_name=True, defer_build=True)


__all__ = [
    "EARLIEST",
    "LATEST",
    "Amount",
    "Budget",
    "Flag",
    "GivenInstant",
    "GivenJson",
    "GivenObject",
    "GivenReason",
    "Instant",
    "Integer",
    "Json",
    "JsonObject",
    "LongText",
    "Model",
    "Origin",
    "PositiveSeconds",
    "Priority",
    "Request",
    "RunNumber",
    "Seconds",
    "Share",
    "Tags",
    "Text",
    "Version",
    "Weight",
    "datetime",
    "few",
]
