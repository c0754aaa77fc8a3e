"""Request bodies: read within a bound, parsed strictly, and checked against their model.

What is refused here would otherwise surface later as a failure of the database or of an encoder: NUL characters (which
PostgreSQL can't keep), NaN and infinities, numbers beyond a double, lone surrogates, and very deep nesting.
"""

import json
import math
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
import pydantic_core
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from treadle_server.api.problems import from_validation
from treadle_server.errors import PayloadTooLarge, ValidationFailed

MOST_LEVELS = 64
"""How deep arrays and objects may nest."""

MOST_BITS = 4096
"""The largest integer: about 1,200 digits, well within what every database and Python take."""

MOST_RUN_ID = 2**31 - 1
"""The largest run number that the database can hold."""

M = TypeVar("M", bound=BaseModel)


async def read(request: Request, limit: int) -> bytes:
    """Return the body. Raises `PayloadTooLarge` beyond `limit` bytes, before all of it is read."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes; send less, or in several requests")


def parse(raw: bytes | str) -> Any:
    """Return the JSON value. Raises `ValidationFailed` when it is none, or one that can't be kept."""
    try:
        value = pydantic_core.from_json(raw, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise ValidationFailed(f"the body is not JSON: {str(error)[:300]}") from None
    except RecursionError:
        raise _too_deep() from None
    check(value)
    return value


def _too_deep() -> ValidationFailed:
    return ValidationFailed(f"the body nests deeper than {MOST_LEVELS} levels")


def check(value: Any) -> None:
    """Raise `ValidationFailed` for a value that can't be kept as JSON text in both databases."""
    level: list[Any] = [value]
    for _ in range(MOST_LEVELS + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                for key in item:
                    _check_text(key)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            else:
                _check_number(item)
        if not below:
            return
        level = below
    raise _too_deep()


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValidationFailed("the body holds a NUL character (\\u0000) in a text; leave it out")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValidationFailed("the body holds half of a surrogate pair; send valid Unicode") from None


def _check_number(number: Any) -> None:
    if isinstance(number, float) and not math.isfinite(number):
        raise ValidationFailed("the body holds a number beyond ±1.8e308; send it as a text")
    if isinstance(number, int) and number.bit_length() > MOST_BITS:
        raise ValidationFailed(f"the body holds an integer of more than {MOST_BITS} bits; send it as a text")


def validate(model: type[M], value: Any) -> M:
    """Return `value` as the model. Raises `ValidationFailed` with the places that are wrong."""
    if not isinstance(value, dict):
        raise ValidationFailed("the body is not a JSON object: send {…}")
    try:
        found = model.model_validate(value)
    except ValidationError as error:
        raise from_validation(error) from None
    except RecursionError:
        raise _too_deep() from None
    return found


def text_of(value: Any) -> str:
    """Return JSON as the compact text that is kept."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # orjson takes no integer beyond 64 bits.
        pass
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def text_or_none(value: Any) -> str | None:
    """Return JSON as text, and None for null."""
    return None if value is None else text_of(value)


_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def instant(value: datetime | None, name: str) -> datetime | None:
    """Return the instant in UTC. Raises `ValidationFailed` outside the years 1970 to 9000."""
    if value is None:
        return None
    if not _EARLIEST <= value < _LATEST:
        raise ValidationFailed(f"{name}: {value.isoformat()} is not between the years 1970 and 9000")
    return value.astimezone(UTC)


def run_number(run_id: int) -> int:
    """Return the run's number. Raises `ValidationFailed` for one that no run can have."""
    if run_id > MOST_RUN_ID:
        raise ValidationFailed(f"run_id: {run_id} is larger than any run's number")
    return run_id


def sorted_text(value: Any) -> str:
    """Return JSON as compact text with its keys in order: the same for equal values."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
