"""Keys of limits that a job takes out of its tasks' payloads, by JSON pointers (RFC 6901)."""

import re
from typing import Any

from treadle.wire.fields import LONGEST_TEXT
from treadle_server.errors import ValidationFailed

_INDEX = re.compile("0|[1-9][0-9]*")
"""A place in a list, as RFC 6901 writes it."""


def pointed(name: str, key: str | None, content: Any) -> str | None:
    """Return the key that a job's registration means, for this payload; None when nothing stands where it points.

    Raises `ValidationFailed` for what can be no key.
    """
    if key is None or not key.startswith("/"):
        return key
    found = content
    for part in key[1:].split("/"):
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and _INDEX.fullmatch(step) and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, dict):
            found = found.get(step)
        else:
            return None
    if found is None:
        return None
    if isinstance(found, dict | list):
        raise ValidationFailed(
            f"limits: the key {key} of {name} leads to an object or a list; let it lead to one value"
        )
    text = found if isinstance(found, str) else _number_text(found)
    if not 0 < len(text) <= LONGEST_TEXT:
        raise ValidationFailed(
            f"limits: the key {key} of {name} leads to a text of {len(text)} characters; it may have 1 to"
            f" {LONGEST_TEXT}"
        )
    return text


def _number_text(number: float) -> str:
    """Return a number or a boolean as a key: 5, 5.0 and 5e0 are one key, however a database writes them."""
    if isinstance(number, bool):
        return "true" if number else "false"
    return str(int(number)) if number == int(number) else repr(number)
