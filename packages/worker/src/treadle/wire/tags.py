"""Tags: JSON values by name, and the words by which they are found.

A nested value is named by its path, `region.name`; the members of an array have the array's path. A filter gives a
path, `region.name`, or a path with a value, `region.name=eu`: the text `eu`, or the number, `true`, `false` or `null`
that is written so. The server's index and the dashboard's filters both use this module.
"""

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

MOST_VALUES = 256
"""The most values in all the tags of a task, objects and arrays included."""

LONGEST_TEXT = 1000
"""The most characters of a text in the tags."""

LONGEST_NAME = 255
"""The most characters of a name in a nested tag."""

Entry = tuple[str, str]
"""A path with its value: a letter for the value's kind and its text; empty: that there is any value."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANTS = {"true": True, "false": False, "null": None}
_EXACT = 2**53


def check(tags: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tags. Raises `ValueError` for more than `MOST_VALUES` values, and for overlong texts and names."""
    for count, (path, value) in enumerate(_values(tags), 1):
        # A nested value is checked only while it may still be within the limit.
        if count > MOST_VALUES or (isinstance(value, Mapping | list) and len(value) > MOST_VALUES):
            raise ValueError(
                f"more than {MOST_VALUES} values in all; tags are for finding a task; put data into its payload"
            )
        if isinstance(value, Mapping) and any(not 0 < len(name) <= LONGEST_NAME for name in value):
            raise ValueError(f"{path}: a name must have 1 to {LONGEST_NAME} characters")
        if not isinstance(value, Mapping | list) and len(_word(value)) > LONGEST_TEXT + 1:
            raise ValueError(f"{path}: more than {LONGEST_TEXT} characters")
    return tags


def entries(tags: Mapping[str, Any]) -> set[Entry]:
    """Return all the entries by which a task with these tags is found."""
    found: set[Entry] = set()
    for path, value in _values(tags):
        found.add((path, ""))
        if not isinstance(value, Mapping | list):
            found.add((path, _word(value)))
    return found


def wanted(tag: str) -> set[Entry]:
    """Return the entries that match a filter's `path` or `path=value`; a task needs one of them."""
    path, has_value, text = tag.partition("=")
    if not has_value:
        return {(path, "")}
    words = {f"s{text}"}
    if text in _CONSTANTS:
        words.add(_word(_CONSTANTS[text]))
    elif (number := _NUMBER.fullmatch(text)) is not None:
        value = float(text) if number[1] or number[2] else int(text)
        if isfinite(value):
            words.add(_word(value))
    return {(path, word) for word in words}


def has(tags: Mapping[str, Any] | None, tag: str) -> bool:
    """Return whether a filter's `path` or `path=value` matches a task with these tags."""
    return not wanted(tag).isdisjoint(entries(tags or {}))


def shown(tags: Mapping[str, Any] | None) -> list[str]:
    """Return the tags as `path=value`, sorted by path, in the form of a filter."""
    plain = [(path, value) for path, value in _values(tags or {}) if not (isinstance(value, Mapping | list) and value)]
    words = [(path, value if isinstance(value, str) else json.dumps(value)) for path, value in plain]
    return [f"{path}={word}" for path, word in sorted(words)]


def _values(tags: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every value with its path, nested ones included."""
    left = list(tags.items())[::-1]
    while left:
        path, value = left.pop()
        yield path, value
        if isinstance(value, Mapping):
            left += [(f"{path}.{name}", member) for name, member in value.items()]
        elif isinstance(value, list):
            left += [(path, member) for member in value]


def _word(value: Any) -> str:
    if isinstance(value, str):
        return f"s{value}"
    if value is None or isinstance(value, bool):
        return f"c{json.dumps(value)}"
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        # 3.0 is the number 3.
        return f"n{int(value)}"
    return f"n{value!r}"


__all__ = ["LONGEST_NAME", "LONGEST_TEXT", "MOST_VALUES", "Entry", "check", "entries", "has", "shown", "wanted"]
