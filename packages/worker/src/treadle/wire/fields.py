"""Types of fields that several models share, with their bounds."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, StringConstraints


def _no_nul(text: str) -> str:
    """Refuse NUL, which PostgreSQL cannot keep in text."""
    if "\x00" in text:
        raise ValueError("holds a NUL character; leave it out")
    return text


Text = Annotated[str, StringConstraints(max_length=255, min_length=1), AfterValidator(_no_nul)]
"""A short text of 1 to 255 characters without NUL."""

LongText = Annotated[str, StringConstraints(max_length=1_000_000), AfterValidator(_no_nul)]
"""A message or a traceback, up to a million characters."""

Seconds = Annotated[float, Field(ge=0, le=315_360_000, allow_inf_nan=False)]
"""A duration in seconds, up to ten years."""

PositiveSeconds = Annotated[float, Field(gt=0, le=315_360_000, allow_inf_nan=False)]

Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
"""Higher goes first; 0 unless said otherwise."""

Weight = Annotated[int, Field(ge=1, le=1_000_000)]
"""How much of a worker's concurrency a task takes."""

Budget = Annotated[int, Field(ge=0, le=1_000_000)]
"""How many retries or requeues are allowed."""

Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
"""Usage and its limit, in whatever unit the task counts."""

_TagValue = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_no_nul)]
Tags = Annotated[dict[Text, _TagValue], Field(max_length=64)]

JsonObject = dict[str, Any]
Json = JsonValue
Instant = AwareDatetime


class Model(BaseModel):
    """What every answer of the server is made of: unknown fields are ignored, so that newer servers can add some."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


class Request(BaseModel):
    """What a client sends: an unknown field is an error, so that a misspelt option is never silently dropped."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


__all__ = [
    "Amount",
    "Budget",
    "Instant",
    "Json",
    "JsonObject",
    "LongText",
    "Model",
    "PositiveSeconds",
    "Priority",
    "Request",
    "Seconds",
    "Tags",
    "Text",
    "Weight",
    "datetime",
]
