"""Which arguments a worker reads again as they were given, once they were written as JSON."""

import types
import typing
from collections.abc import Hashable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import to_json

from treadle.errors import BadValue
from treadle.values import members
from treadle.wire.values import MOST_LEVELS

_SURE: frozenset[Any] = frozenset(
    {str, int, float, bool, None, type(None), Any, bytes, datetime, date, time, timedelta, Decimal, Path, UUID}
)
"""Types of which pydantic reads again whatever it has written as JSON."""

_UNIONS = frozenset({typing.Union, types.UnionType})


def is_sure(annotation: Any) -> bool:
    """Return whether every value of a type is read again when it was written as JSON.

    To look costs a submit of a line of text a third more, and one of 20,000 twice as much.
    """
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS and _names_bytes(annotation):
        return False
    if origin in {list, set, frozenset, tuple, *_UNIONS}:
        return all(part is ... or is_sure(part) for part in inner)
    if origin is dict:
        return inner[0] is str and is_sure(inner[1])
    # What is written beside a type with `Annotated`, such as a dict, may have no hash, and the type has none then.
    return origin is None and isinstance(annotation, Hashable) and annotation in _SURE


def _names_bytes(annotation: Any) -> bool:
    return annotation is bytes or any(map(_names_bytes, typing.get_args(annotation)))


def takes_both(schema: Any) -> bool:
    """Return whether what pydantic made of a type may take bytes or something else in one place, however deep.

    It may be said of more types than that: who asks counts the bytes of a value then.
    """
    # A field may be called `type`, too, and then it is no kind that stands there.
    kinds = {kind for part in _parts_of(schema) if isinstance(kind := part.get("type"), str)}
    return {"bytes", "union"} <= kinds


def reads_less(schema: Any) -> bool:
    """Return whether pydantic writes of a type what it does not read again, unless it is told to (`round_trip`).

    That is what a model computes that forbids what it does not know, and JSON that stands in a field as a text.
    """
    return any(
        part.get("type") == "json" or (_forbids(part) and any(one.get("computed_fields") for one in _parts_of(part)))
        for part in _parts_of(schema)
    )


def _forbids(part: Mapping[str, Any]) -> bool:
    config = part.get("config")
    return isinstance(config, Mapping) and config.get("extra_fields_behavior") == "forbid"


def _parts_of(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Give the schemas that stand in one, it too, and those of dataclasses, models and aliases that it names."""
    if isinstance(schema, Mapping):
        yield schema
        schema = schema.values()
    elif not isinstance(schema, list | tuple):
        return
    for part in schema:
        yield from _parts_of(part)


def bytes_in(value: object, levels: int = MOST_LEVELS) -> int:
    """Return how many bytes objects a value holds."""
    if isinstance(value, bytes):
        return 1
    if levels == 0:
        return 0
    keys = sum(isinstance(key, bytes) for key in value) if isinstance(value, Mapping) else 0
    return keys + sum(bytes_in(inner, levels - 1) for _, inner in members(value))


_MASK = b'"**********"'
"""How JSON has a secret."""


def check_no_secret(value: object, data: Any, name: str) -> None:
    """Raise `BadValue` for a value with one of pydantic's secrets in it, of which `data`, its JSON, has asterisks.

    To look for these in the JSON is quick: who has none in it is looked through no further.
    """
    if _MASK in to_json(data) and _holds_secret(value):
        raise BadValue(
            f"{name} has a secret, which is written as asterisks: give a str, of a task that is encrypted where the"
            " server must not read it, or the name by which it is looked up"
        )


def secret_of(model: BaseModel, written: bytes) -> str | None:
    """Return the argument that has one of pydantic's secrets in it, and asterisks in its JSON; None without one."""
    fields = type(model).model_fields
    if _MASK not in written:
        return None
    return next((str(fields[name].alias) for name, value in model if _holds_secret(value)), None)


def _holds_secret(value: object, levels: int = MOST_LEVELS) -> bool:
    if isinstance(value, SecretStr | SecretBytes | Secret):
        return bool(value.get_secret_value())
    return levels > 0 and any(_holds_secret(inner, levels - 1) for _, inner in members(value))
