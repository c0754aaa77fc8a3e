"""Keys of limits that a job takes from its tasks' payloads, by JSON pointers (RFC 6901)."""

import re
from collections.abc import Iterable
from typing import Any, TypeGuard

from treadle.wire.fields import LONGEST_TEXT

_INDEX = re.compile("0|[1-9][0-9]*")
"""An index of a list, as RFC 6901 writes it."""


def is_pointer(key: str | None) -> TypeGuard[str]:
    """Return whether a job's key points into the payload."""
    return key is not None and key.startswith("/")


def pointers_among(keys: Iterable[str | None]) -> list[str]:
    """Return those of a job's keys that point into the payload."""
    return [key for key in keys if is_pointer(key)]


def key_at(pointer: str, content: Any) -> str | None:
    """Return the key that a pointer leads to, None if there is nothing.

    Raises `ValueError`, saying why, for an object or a list, and for a text that is empty or too long for a key.
    """
    found = content
    for part in pointer[1:].split("/"):
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and _INDEX.fullmatch(step) and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict):
            found = found.get(step)
        else:
            return None
    if isinstance(found, dict | list):
        raise ValueError("points to an object or a list: it must point to a single value")  # noqa: TRY004 - of its content
    if found is None:
        return None
    text = found if isinstance(found, str) else _number_text(found)
    if not 0 < len(text) <= LONGEST_TEXT:
        raise ValueError(f"points to a string of {len(text)} characters; it may have 1 to {LONGEST_TEXT}")
    return text


def _number_text(number: float) -> str:
    """Return a number or a boolean as a key: 5, 5.0 and 5e0 are the same key, however a database writes them."""
    if isinstance(number, bool):
        return "true" if number else "false"
    return str(int(number)) if number == int(number) else repr(number)
