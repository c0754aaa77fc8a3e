"""Which arguments a worker reads again as they were given, once they were written as JSON."""

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
"""Types of which pydantic reads again whatever it has written as JSON."""

_UNIONS = frozenset({typing.Union, types.UnionType})


def listed(annotation: Any) -> Any:
    """Return a type with lists for what is `Iterable`, which pydantic reads as an iterator that ends after one pass."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Iterable or annotation is Iterable:
        return list[inner[0] if inner else Any]  # type: ignore[misc]
    made = tuple(map(listed, inner)) if origin in {typing.Annotated, *_UNIONS} else inner
    if all(one is other for one, other in zip(made, inner, strict=True)):
        return annotation
    return typing.Annotated[(made[0], *inner[1:])] if origin is typing.Annotated else functools.reduce(or_, made)


def is_sure(annotation: Any) -> bool:
    """Return whether every value of a type is read again when it was written as JSON.

    To look costs a submit of a line of text a third more, and one of 20,000 twice as much.
    """
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS and names(annotation, bytes):
        return False
    if origin in {list, set, frozenset, tuple, *_UNIONS}:
        return all(part is ... or is_sure(part) for part in inner)
    if origin is dict:
        return inner[0] is str and is_sure(inner[1])
    # What is written beside a type with `Annotated`, such as a dict, may have no hash, and the type has none then.
    return origin is None and isinstance(annotation, Hashable) and annotation in _SURE


def names(annotation: Any, kind: Any) -> bool:
    """Return whether a type is another one, or has it within."""
    return annotation is kind or any(names(one, kind) for one in typing.get_args(annotation))


def takes_both(schema: Any) -> bool:
    """Return whether what pydantic made of a type may take bytes or something else in one place, however deep.

    It may be said of more types than that: who asks counts the bytes of a value then.
    """
    # A field may be called `type`, too, and then it is no kind that stands there.
    return {"bytes", "union"} <= _kinds_of(schema)


def takes_bytes(schema: Any) -> bool:
    """Return whether bytes stand anywhere in what pydantic made of a type."""
    return "bytes" in _kinds_of(schema)


def _kinds_of(schema: Any) -> set[str]:
    return {kind for part in _parts_of(schema) if isinstance(kind := part.get("type"), str)}


_PYDANTICS = frozenset({"pydantic._internal._generate_schema", "pydantic._internal._validators"})
"""Where those functions stand; to look at what they read again is dear, and finds nothing."""


def may_lose(schema: Any) -> bool:
    """Return whether pydantic may write of a type what it reads as something else.

    Functions of its own may write it; it may be written by another name than it is read by, and bytes in another form;
    of an enum's values, of what a `Literal` names, and of the keys of a dict, which JSON has as texts, pydantic reads
    the plainest alone.
    It may be said of more types than that, and so it is with the next one.
    """
    return any(map(_loses, _parts_of(schema)))


def may_shift(schema: Any) -> bool:
    """Return whether a value of a type may become another one each time it is read, by the type's own functions."""
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
"""Types of keys that are read again from a text of theirs."""


def _form(config: Mapping[str, Any], name: str) -> object:
    return config.get(name) or "utf8"


def _shifts(part: Mapping[str, Any]) -> bool:
    return bool(_calls(part) or part.get("post_init") or part.get("custom_init"))


def _calls(part: Mapping[str, Any]) -> bool:
    """Return whether a function reads or writes, and none of those by which pydantic knows paths and the like."""
    if not str(part.get("type")).startswith("function-"):
        return False
    said = part.get("function")
    function = said.get("function") if isinstance(said, Mapping) else said
    return getattr(function, "__module__", None) not in _PYDANTICS


def is_altered(value: object, again: object, written: Any, rewritten: Any) -> bool:
    """Return whether what was read again of a value, and is `rewritten`, is another one of the value's type.

    One of another type, that JSON writes alike, is none. Sets have no order.
    """
    return bool(
        written != rewritten and _unordered(written) != _unordered(rewritten) and _types(value) == _types(again)
    )


def first_altered(
    model: BaseModel, again: BaseModel, written: Mapping[str, Any], rewritten: Mapping[str, Any]
) -> str | None:
    """Return what is said of the first argument that `is_altered`; None without one."""
    for field, value in model:
        name, read = str(type(model).model_fields[field].alias), getattr(again, field)
        if is_altered(value, read, written.get(name), rewritten.get(name)):
            return f"{name} {altered(value, read)}"
    return None


def first_of_both(model: BaseModel, again: BaseModel) -> str | None:
    """Return what is said of the first argument with bytes that were read again as a text, or the other way."""
    for field, value in model:
        if bytes_in(value) != bytes_in(getattr(again, field)):
            return (
                f"{type(model).model_fields[field].alias} takes bytes and texts, which JSON can't tell apart, and"
                f" {brief(value)} would be read again as the other: take one of them, or two arguments"
            )
    return None


def _unordered(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _unordered(inner) for name, inner in data.items()}
    return sorted(map(to_json, map(_unordered, data))) if isinstance(data, list) else data


def _types(value: object, levels: int = MOST_LEVELS) -> Any:
    return type(value), [_types(inner, levels - 1) for _, inner in members(value)] if levels else []


def altered(value: object, again: object) -> str:
    """Return what is said of a value that would be read again as another one, and what to do."""
    return (
        f"would be read again as another one, {brief(value)} as {brief(again)}: let its validators and __post_init__"
        " leave alone what they have made, write it by the alias, and in the form, that it is read by, and take texts"
        " or numbers as an enum's values, in a Literal and as a dict's keys"
    )


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


def secret_of(model: BaseModel, written: bytes) -> str | None:
    """Return the argument that has one of pydantic's secrets in it, and asterisks in its JSON; None without one."""
    fields = type(model).model_fields
    if MASK not in written:
        return None
    return next((str(fields[name].alias) for name, value in model if holds_secret(value)), None)
