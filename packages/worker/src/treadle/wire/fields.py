"""Types of fields that several models share, with their bounds."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    StringConstraints,
)
from pydantic_core import CoreSchema

from treadle.wire.names import MOST_ORIGIN
from treadle.wire.status import Reason
from treadle.wire.tags import check
from treadle.wire.values import LEAST_INTEGER, MOST_INTEGER, NUL, BadValue, fault


def _no_nul(text: str) -> str:
    """Refuse NUL; pydantic itself refuses lone surrogates in a string with constraints."""
    if "\x00" in text:
        raise ValueError(NUL)
    return text


def _kept(value: Any) -> Any:
    """Refuse a value that JSON can't carry or a database can't store."""
    if (found := fault(value)) is not None:
        raise BadValue(found)
    return value


_REASONS = frozenset(Reason)


def _known(reason: Reason) -> Reason:
    """Refuse an unknown reason. In an answer it may come from a newer server; from a worker it is an error."""
    if reason not in _REASONS:
        raise ValueError(f"unknown reason; use one of {', '.join(sorted(_REASONS))}")
    return reason


GivenReason = Annotated[Reason, AfterValidator(_known)]
"""A reason as a worker gives it."""

LONGEST_TEXT = 255
"""The most characters of a short text: a name, a group, a pool."""

Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT, min_length=1), AfterValidator(_no_nul)]
"""A short text of 1 to 255 characters without NUL."""

Origin = Annotated[str, StringConstraints(max_length=MOST_ORIGIN, min_length=1), AfterValidator(_no_nul)]
"""Where a job's function is defined: `module:qualname`."""

LONGEST_OUTPUT = 1_000_000
"""The most characters of the output of code: a message, a traceback, a log line."""

LongText = Annotated[str, StringConstraints(max_length=LONGEST_OUTPUT), AfterValidator(_no_nul)]
"""A message or a traceback, up to a million characters."""

# Numbers and flags are strict: `true` is not 1, "5" not 5 and "yes" not true; a guess would hide the sender's mistake.

Flag = Annotated[bool, Field(strict=True)]
"""True or false, and nothing that could be converted to it."""

TEN_YEARS = 315_360_000
"""The longest duration that a request may name, in seconds."""

Seconds = Annotated[float, Field(strict=True, ge=0, le=TEN_YEARS, allow_inf_nan=False)]
"""A duration in seconds, up to ten years."""

PositiveSeconds = Annotated[float, Field(strict=True, gt=0, le=TEN_YEARS, allow_inf_nan=False)]
"""A duration in seconds, more than 0 and up to ten years."""

Period = Annotated[float, Field(ge=0.001)]
"""The seconds of something that recurs, as a server shows them: clients divide by them."""

Priority = Annotated[int, Field(strict=True, ge=-1_000_000, le=1_000_000)]
"""Higher priorities go first; the default is 0."""

MOST_WEIGHT = 1_000_000
"""The largest weight that a task, a worker or a limit can have."""

Weight = Annotated[int, Field(strict=True, ge=1, le=MOST_WEIGHT)]
"""How much of a worker's concurrency a task takes."""

MOST_OF_REQUEST = 10_000
"""The most items of one request, such as tasks, ids or reports."""

MOST_TRIES = 1_000_000
"""The most retries or requeues that a task may be allowed."""

MOST_MULTIPLIER, MOST_RANDOMIZATION = 100, 10
"""The largest factor from one retry's delay to the next, and the largest random share."""

Budget = Annotated[int, Field(strict=True, ge=0, le=MOST_TRIES)]
"""How many retries or requeues are allowed."""

MOST_USAGE = 1e15

Amount = Annotated[float, Field(strict=True, ge=0, le=MOST_USAGE, allow_inf_nan=False)]
"""Usage and its limit, in whatever unit the task counts."""

Integer = Annotated[int, Field(strict=True, ge=LEAST_INTEGER, le=MOST_INTEGER)]
"""An integer of the protocol itself: signed, 64 bits."""

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
"""Marks a field whose value the model checks in full."""

GivenObject = Annotated[JsonObject, LOOKED_THROUGH]
"""A JSON object as a client gives it: one that can be stored (`treadle.wire.values`)."""


def few(most: int) -> BeforeValidator:
    """Refuse an object with over `most` members before each is validated: pydantic keeps an error for each bad one.

    The validator raises `ValueError`, which pydantic reports.
    """

    def check(value: object) -> object:
        if isinstance(value, dict) and len(value) > most:
            raise ValueError(f"has {len(value)} names; at most {most} are allowed")
        return value

    return BeforeValidator(check)


_TAGS = 64

Tags = Annotated[dict[Text, Any], Field(max_length=_TAGS), few(_TAGS), AfterValidator(_kept), AfterValidator(check)]
"""JSON values by name, by which tasks are found: at most 64 names, and bounded as `treadle.wire.tags` says."""

GivenJson = Annotated[Any, LOOKED_THROUGH]
"""A value as a client gives it: JSON that can be stored (`treadle.wire.values` checks both at once)."""

Instant = AwareDatetime


def _no_bare_number(value: object) -> object:
    """Refuse a number, quoted or not: pydantic would read it as seconds or milliseconds, depending on its size."""
    if isinstance(value, int | float) or (isinstance(value, str) and "-" not in value[1:]):
        raise ValueError("write the time as 2026-01-31T12:00:00Z")
    return value


GivenInstant = Annotated[AwareDatetime, BeforeValidator(_no_bare_number)]
"""An instant as a client gives it: ISO 8601 with its offset from UTC."""

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""The first instant that a server keeps."""

LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""All instants that a server keeps are before this one: every database can store them, and a day more or less."""


def _bounded(schema: Any) -> Any:
    """Return a schema with the bounds of the protocol's numbers; JSON values are behind a reference, and have none."""
    match schema:
        case {"type": "int"}:
            return {"ge": LEAST_INTEGER, "le": MOST_INTEGER, **schema}
        case {"type": "float"}:
            return {"allow_inf_nan": False, **schema}
        case dict():
            return {name: _bounded(part) for name, part in schema.items()}
        case list():
            return [_bounded(part) for part in schema]
    return schema


class Model(BaseModel):
    """The base of every answer's model. Unknown fields are ignored, so that newer servers can add some.

    Integers have 64 bits and other numbers are finite, so that clients can calculate with them.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore", populate_by_name=True, frozen=True, defer_build=True
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the model's schema, with the bounds of the protocol's numbers."""
        return cast("CoreSchema", _bounded(handler(source)))


class Request(BaseModel):
    """The base of every request's model. An unknown field is an error: no misspelt option is dropped silently."""

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
    "Period",
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
