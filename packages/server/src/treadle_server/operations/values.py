"""Validates requests and their items against models, and turns values into the text that is stored.

Values that no database or encoder can take are refused by the rules of `treadle.wire.values`, with their place.
"""

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from treadle.wire.fields import LOOKED_THROUGH, JsonObject
from treadle.wire.values import REQUEST_LEVELS, fault, is_kept
from treadle_server.errors import PayloadTooLarge, TreadleError, ValidationFailed
from treadle_server.operations.portions import portions
from treadle_server.operations.problems import bad_value, from_validation

MOST_RUN_ID = 2**31 - 1
"""The largest run number that the database can store."""

M = TypeVar("M", bound=BaseModel)

_MOST_FIELDS = 10_000
"""The most fields of a request, far more than any model has: pydantic keeps an error for each unknown one."""

_MOST_DIGITS = 1_000_000
"""The most digits of all long numbers of a value: one of 4,300 digits takes 0.06 ms to write, twice."""

_BITS = _MOST_DIGITS * 10 // 3
_PLAIN_BITS = 64


def check(value: Any, place: str = "") -> None:
    """Raise `ValidationFailed`, with the place, if the value can't be stored."""
    if (found := fault(value, place, REQUEST_LEVELS)) is not None:
        raise bad_value(found)


def validate(model: type[M], value: Any) -> M:
    """Return `value` as the model. Raises `ValidationFailed` with the places that are wrong.

    Payloads and results, which the model checks itself, are not checked again: a check of a million numbers takes a
    tenth of a second.
    """
    if isinstance(value, dict):
        _check_fields(value)
        own = _checked_by_model(model)
        check({name: member for name, member in value.items() if not (name in own and type(member) in own[name])})
    return _as(model, value)


def _check_fields(value: dict[str, Any]) -> None:
    if len(value) > _MOST_FIELDS:
        raise ValidationFailed(f"{len(value)} fields, more than there are: leave out the unknown ones")


@cache
def _checked_by_model(model: type[BaseModel]) -> dict[str, frozenset[type]]:
    """Return the fields whose values the model checks itself, with the types for which it does."""
    return {
        field.alias or name: _OWN[field.annotation]
        for name, field in model.model_fields.items()
        if LOOKED_THROUGH in field.metadata and field.annotation in _OWN
    }


_OWN: dict[Any, frozenset[type]] = {JsonObject: frozenset({dict}), Any: frozenset({dict, list})}


def outline(model: type[M], value: Any, items: str) -> M:
    """Return `value` as the model, without a check of its `items`, which `each` validates. Raises as `validate`."""
    if isinstance(value, dict):
        _check_fields(value)
        check({name: member for name, member in value.items() if name != items})
    return _as(model, value)


async def each(model: type[M], items: Sequence[Any]) -> Sequence[M | TreadleError]:
    """Return each item as the model, or what is wrong with it."""
    found: list[M | TreadleError] = []
    for some in portions(items):
        if found:
            await asyncio.sleep(0)
        found += _each(model, some)
    return found


def _each(model: type[M], items: Sequence[Any]) -> Sequence[M | TreadleError]:
    if is_kept(items, REQUEST_LEVELS):
        try:
            # All at once takes half the time of one by one.
            return _many(model).validate_python(items)
        except ValidationError:
            pass
    return [_valid_or_not(model, item) for item in items]


@cache
def _many(model: type[M]) -> TypeAdapter[list[M]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]


def _valid_or_not(model: type[M], item: Any) -> M | TreadleError:
    try:
        return validate(model, item)
    except TreadleError as error:
        return error


def _as(model: type[M], value: Any) -> M:
    if not isinstance(value, dict):
        raise ValidationFailed("the body is not a JSON object: send {…}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise from_validation(error) from None


def text_of(value: Any) -> str:
    """Return JSON as the compact text to store. Raises `PayloadTooLarge` if long numbers have too many digits."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # orjson takes no integer beyond 64 bits.
        _check_digits(value)
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _check_digits(value: Any) -> None:
    bits, level = 0, [value]
    while level:
        bits += sum(item.bit_length() for item in level if type(item) is int and item.bit_length() > _PLAIN_BITS)
        lists = [item for item in level if type(item) is list]
        level = [item for one in level if type(one) is dict for item in one.values()]
        level += chain.from_iterable(lists)
    if bits > _BITS:
        raise PayloadTooLarge(f"numbers with over {_MOST_DIGITS:,} digits in all; send long ones as texts")


def text_or_none(value: Any) -> str | None:
    """Return JSON as text, and None for null."""
    return None if value is None else text_of(value)


def run_number(run_id: int) -> int:
    """Return the run's number. Raises `ValidationFailed` if no run can have it."""
    if run_id > MOST_RUN_ID:
        raise ValidationFailed(f"run_id: {run_id} is larger than any run's number")
    return run_id


def sorted_text(value: Any) -> str:
    """Return JSON as compact text with its keys in order: the same for equal values."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
