"""Whether a worker reads arguments back as they were given, after they were written as JSON."""

import functools
import types
import typing
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import or_
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_json

from treadle.values import MASK, brief, holds_secret, members
from treadle.wire.values import MOST_LEVELS

_SURE: frozenset[Any] = frozenset(
    {str, int, float, bool, None, type(None), Any, bytes, datetime, date, time, timedelta, Decimal, Path, UUID}
)
"""Types whose values pydantic always reads back the same from JSON."""

_UNIONS = frozenset({typing.Union, types.UnionType})


def listed(annotation: Any) -> Any:
    """Return a type with `list` for `Iterable`, which pydantic reads as an iterator that ends after one pass."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Iterable or annotation is Iterable:
        return list[inner[0] if inner else Any]  # type: ignore[misc]
    made = tuple(map(listed, inner)) if origin in {typing.Annotated, *_UNIONS} else inner
    if all(one is other for one, other in zip(made, inner, strict=True)):
        return annotation
    return typing.Annotated[(made[0], *inner[1:])] if origin is typing.Annotated else functools.reduce(or_, made)


def is_sure(annotation: Any) -> bool:
    """Return whether every value of a type is read back the same from JSON.

    Checking a value instead makes a submit of one line of text take a third longer, and one of 20,000 lines twice as
    long.
    """
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS and names(annotation, bytes):
        return False
    if origin in {list, set, frozenset, tuple, *_UNIONS}:
        return all(part is ... or is_sure(part) for part in inner)
    if origin is dict:
        return inner[0] is str and is_sure(inner[1])
    # Metadata in `Annotated`, such as a dict, may not be hashable, and then the type isn't either.
    return origin is None and isinstance(annotation, Hashable) and annotation in _SURE


def names(annotation: Any, kind: Any) -> bool:
    """Return whether a type is `kind`, or contains it."""
    return annotation is kind or any(names(one, kind) for one in typing.get_args(annotation))


def takes_both(schema: Any) -> bool:
    """Return whether a type, given as its core schema, may hold bytes or another type in one place, at any depth.

    It may report more types than that: the caller then counts the bytes in a value.
    """
    # A field may also be called `type`; its schema is not a string.
    return {"bytes", "union"} <= _kinds_of(schema)


def takes_bytes(schema: Any) -> bool:
    """Return whether a type, given as pydantic's core schema, contains bytes anywhere."""
    return "bytes" in _kinds_of(schema)


def _kinds_of(schema: Any) -> set[str]:
    return {kind for part in _parts_of(schema) if isinstance(kind := part.get("type"), str)}


_PYDANTICS = frozenset({"pydantic._internal._generate_schema", "pydantic._internal._validators"})
"""The modules of pydantic's own functions; checking what they read back is expensive, and finds nothing."""


def may_lose(schema: Any) -> bool:
    """Return whether pydantic may write a value of the type as JSON that it reads back as another value.

    It may be written by functions of its own, by another name than it is read by, or, for bytes, in another form; and
    of an enum's values, a `Literal`'s values and a dict's keys, which are text in JSON, pydantic reads back only the
    plainest. May report more types than that, as may `may_shift`.
    """
    return any(map(_loses, _parts_of(schema)))


def may_shift(schema: Any) -> bool:
    """Return whether the type's own functions may turn a value into a different one each time it is read."""
    return any(map(_shifts, _parts_of(schema)))


def _loses(part: Mapping[str, Any]) -> bool:
    config, writes = part.get("config"), part.get("serialization")
    return bool(
        (isinstance(writes, Mapping) and _calls(writes))
        or (isinstance(config, Mapping) and _form(config, "ser_json_bytes") != _form(config, "val_json_bytes"))
        or part.get("serialization_exclude_if") is not None
        or part.get("serialization_alias") != part.get("validation_alias")
        or (part.get("type") == "dataclass-field" and part.get("validation_alias") is not None)
        or (part.get("type") == "enum" and not all(isinstance(one.value, str | int | float) for one in part["members"]))
        or (part.get("type") == "literal" and not all(isinstance(one, str | int | None) for one in part["expected"]))
        or (part.get("type") == "dict" and part.get("keys_schema", {}).get("type", "any") not in _PLAIN_KEYS)
    )


_PLAIN_KEYS = frozenset({"any", "str", "int", "float", "bool", "date", "datetime", "uuid"})
"""Types of keys that are read back from their text."""


def _form(config: Mapping[str, Any], name: str) -> object:
    return config.get(name) or "utf8"


def _shifts(part: Mapping[str, Any]) -> bool:
    return bool(_calls(part) or part.get("post_init") or part.get("custom_init"))


def _calls(part: Mapping[str, Any]) -> bool:
    """Return whether a function reads or writes the value, other than pydantic's own for paths and the like."""
    if not str(part.get("type")).startswith("function-"):
        return False
    said = part.get("function")
    function = said.get("function") if isinstance(said, Mapping) else said
    return getattr(function, "__module__", None) not in _PYDANTICS


def is_altered(value: object, again: object, written: Any, rewritten: Any) -> bool:
    """Return whether `again`, read back from `value` and written as `rewritten`, is a different value of the same type.

    A value of another type that JSON writes alike does not count. The order of sets is ignored.
    """
    return bool(
        written != rewritten and _unordered(written) != _unordered(rewritten) and _types(value) == _types(again)
    )


def first_altered(
    model: BaseModel, again: BaseModel, written: Mapping[str, Any], rewritten: Mapping[str, Any]
) -> str | None:
    """Return what to say of the first argument for which `is_altered` is true; None if there is none."""
    for field, value in model:
        name, read = str(type(model).model_fields[field].alias), getattr(again, field)
        if is_altered(value, read, written.get(name), rewritten.get(name)):
            return f"{name} {altered(value, read)}"
    return None


def first_of_both(model: BaseModel, again: BaseModel) -> str | None:
    """Return what to say of the first argument with bytes that were read back as text, or the reverse."""
    for field, value in model:
        if bytes_in(value) != bytes_in(getattr(again, field)):
            return (
                f"{type(model).model_fields[field].alias} takes both bytes and str, which JSON can't tell apart, and"
                f" {brief(value)} would be read back as the other: take one of them, or two arguments"
            )
    return None


def _unordered(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _unordered(inner) for name, inner in data.items()}
    return sorted(map(to_json, map(_unordered, data))) if isinstance(data, list) else data


def _types(value: object, levels: int = MOST_LEVELS) -> Any:
    return type(value), [_types(inner, levels - 1) for _, inner in members(value)] if levels else []


def altered(value: object, again: object) -> str:
    """Return what to say of a value that would be read back as another one, and what to do."""
    return (
        f"would be read back as a different value, {brief(value)} as {brief(again)}: let its validators and"
        " __post_init__"
        " leave alone what they have made, write it by the alias, and in the form, that it is read by, and take texts"
        " or numbers as an enum's values, in a Literal and as a dict's keys"
    )


def reads_less(schema: Any) -> bool:
    """Return whether pydantic reads back values of the type only if they are written with `round_trip`.

    These are the computed fields of a model that forbids extra fields, and JSON that a field holds as text.
    """
    return any(
        part.get("type") == "json" or (_forbids(part) and any(one.get("computed_fields") for one in _parts_of(part)))
        for part in _parts_of(schema)
    )


def _forbids(part: Mapping[str, Any]) -> bool:
    config = part.get("config")
    return isinstance(config, Mapping) and config.get("extra_fields_behavior") == "forbid"


def _parts_of(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those within it, including the dataclasses, models and aliases that it refers to."""
    if isinstance(schema, Mapping):
        yield schema
        schema = schema.values()
    elif not isinstance(schema, list | tuple):
        return
    for part in schema:
        yield from _parts_of(part)


def bytes_in(value: object, levels: int = MOST_LEVELS) -> int:
    """Return how many bytes objects a value contains."""
    if isinstance(value, bytes):
        return 1
    if levels == 0:
        return 0
    keys = sum(isinstance(key, bytes) for key in value) if isinstance(value, Mapping) else 0
    return keys + sum(bytes_in(inner, levels - 1) for _, inner in members(value))


def secret_of(model: BaseModel, written: bytes) -> str | None:
    """Return the argument that contains one of pydantic's secrets, if its JSON has asterisks; else None."""
    fields = type(model).model_fields
    if MASK not in written:
        return None
    return next((str(fields[name].alias) for name, value in model if holds_secret(value)), None)
