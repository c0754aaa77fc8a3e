"""Types of fields that several models share, with their bounds."""

from datetime import datetime
from typing import Annotated, Any

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


def _no_nul(text: str) -> str:
    """Refuse NUL, which PostgreSQL cannot keep in text."""
    if "\x00" in text:
        raise ValueError("holds a NUL character; leave it out")
    return text


Text = Annotated[str, StringConstraints(max_length=255, min_length=1), AfterValidator(_no_nul)]
"""A short text of 1 to 255 characters without NUL."""

LongText = Annotated[str, StringConstraints(max_length=1_000_000), AfterValidator(_no_nul)]
"""A message or a traceback, up to a million characters."""

# Numbers and flags are strict: `true` is no 1, "5" no 5 and "yes" no true, for a guess would hide the sender's mistake.

Flag = Annotated[bool, Field(strict=True)]

Seconds = Annotated[float, Field(strict=True, ge=0, le=315_360_000, allow_inf_nan=False)]
"""A duration in seconds, up to ten years."""

PositiveSeconds = Annotated[float, Field(strict=True, gt=0, le=315_360_000, allow_inf_nan=False)]

Priority = Annotated[int, Field(strict=True, ge=-1_000_000, le=1_000_000)]
"""Higher goes first; 0 unless said otherwise."""

Weight = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
"""How much of a worker's concurrency a task takes."""

Budget = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
"""How many retries or requeues are allowed."""

Amount = Annotated[float, Field(strict=True, ge=0, le=1e15, allow_inf_nan=False)]
"""Usage and its limit, in whatever unit the task counts."""

RunNumber = Annotated[int, Field(strict=True, ge=0)]
"""A run's number as a client names it."""

Version = Annotated[int, Field(strict=True)]
"""A task's version as a client remembers it."""

Share = Annotated[float, Field(strict=True, ge=0, le=1)]

_TagValue = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_no_nul)]
Tags = Annotated[dict[Text, _TagValue], Field(max_length=64)]

JsonObject = dict[str, Any]
Json = JsonValue
Instant = AwareDatetime


def _no_bare_number(value: object) -> object:
    """Refuse a number, quoted or not: pydantic would take it for seconds or milliseconds, as its size suggests."""
    if isinstance(value, int | float) or (isinstance(value, str) and "-" not in value[1:]):
        raise ValueError("write the time as in 2026-01-31T12:00:00Z")
    return value


GivenInstant = Annotated[AwareDatetime, BeforeValidator(_no_bare_number)]
"""An instant as a client gives it: ISO 8601 with its offset from UTC."""


class Model(BaseModel):
    """What every answer of the server is made of: unknown fields are ignored, so that newer servers can add some."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


class Request(BaseModel):
    """What a client sends: an unknown field is an error, so that a misspelt option is never silently dropped."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


__all__ = [
    "Amount",
    "Budget",
    "Flag",
    "GivenInstant",
    "Instant",
    "Json",
    "JsonObject",
    "LongText",
    "Model",
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
]
