"""Values that the server keeps and can't read: the form in which they are sent and stored.

An encrypted value of a task is one text, the seal: the ciphertext in URL-safe base64, preceded, before a dot, by up to
eight keyed digests of the plain text, separated by commas. Two seals that share a digest are of the same plain text. A
JSON value is sealed as `{"treadle:encrypted": seal}`, a text as `<treadle:encrypted:seal>`; a sealed error may be
preceded by its class, `KeyError: <treadle:encrypted:…>`, which is all of it that can be read. The seal of a payload is
accompanied by the keys of limits that point into it: `"treadle:limit_keys": {pointer: digest}`, with keyed digests of
the values there, and null where there is none.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from treadle.wire.pointers import is_pointer

MARK = "treadle:encrypted"
"""The first key of a sealed JSON value, and except in payloads the only one."""

LIMIT_KEYS = "treadle:limit_keys"
"""The second key of a sealed payload whose job has limits that point into it."""

ENCRYPTED = "(encrypted)"
"""What is shown in place of a sealed value that no key opens."""

MOST_DIGESTS = 8
"""The most digests of a seal: one for each key that may have made the first of two equal values."""

LONGEST_CLASS = 255
"""The most characters of an error's class."""

UNOPENED = "the worker has no key that opens what the task was submitted with"
"""A plain text that a worker may report of an encrypted task: why the task could not begin."""

UNSEALED = "the worker's codec failed to encrypt what the run came to; the worker's own log says how"
"""Another such text: why nothing else is reported of a run's end."""

_DIGEST = r"[A-Za-z0-9_-]{1,64}"
_SEAL = rf"(?:{_DIGEST}(?:,{_DIGEST}){{0,{MOST_DIGESTS - 1}}}\.)?[A-Za-z0-9_-]+={{0,2}}"
_WHOLE = re.compile(_SEAL)
_ONE_DIGEST = re.compile(_DIGEST)
_KEYS = ([MARK], [MARK, LIMIT_KEYS])
_TEXT = re.compile(rf"(?:([A-Za-z_][A-Za-z0-9_.]{{0,{LONGEST_CLASS - 1}}}): )?<{MARK}:({_SEAL})>")
_BEGINNING = f"<{MARK}:"


def is_seal(value: object) -> TypeGuard[str]:
    """Return whether this is a seal, as far as can be seen without the key."""
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None


def seal_of(value: object) -> str | None:
    """Return the seal of a sealed JSON value; None for any other value."""
    if not isinstance(value, Mapping) or [*value] not in _KEYS or not _are_limit_keys(value.get(LIMIT_KEYS, {})):
        return None
    found = value[MARK]
    return found if is_seal(found) else None


def _are_limit_keys(value: object) -> bool:
    """Return whether this contains nothing in plain but the pointers."""
    return isinstance(value, Mapping) and all(
        isinstance(pointer, str)
        and is_pointer(pointer)
        and (key is None or (isinstance(key, str) and _ONE_DIGEST.fullmatch(key) is not None))
        for pointer, key in value.items()
    )


def seal_of_text(text: str | None) -> str | None:
    """Return the seal of a sealed text, with or without the class of an error before it; None for any other text."""
    if text is None or _BEGINNING not in text[:300]:
        return None
    found = _TEXT.fullmatch(text)
    return None if found is None else found[2]


def class_of(text: str) -> str | None:
    """Return the class of an error that precedes a sealed text."""
    found = _TEXT.fullmatch(text)
    return None if found is None else found[1]


def sealed_value(seal: str) -> dict[str, Any]:
    """Return the JSON value for a seal."""
    return {MARK: seal}


def sealed_text(seal: str, error_class: str | None = None) -> str:
    """Return the text for a seal, preceded by the class of an error, if any."""
    text = f"{_BEGINNING}{seal}>"
    return text if error_class is None else f"{error_class}: {text}"


def shown(text: str) -> str:
    """Return a text to show without a key: a sealed one as a placeholder, with the class of an error."""
    if seal_of_text(text) is None:
        return text
    known = class_of(text)
    return ENCRYPTED if known is None else f"{known}: {ENCRYPTED}"


def identities(seal: str) -> tuple[str, ...]:
    """Return what seals of the same plain text share: their digests, or, without any, the whole seal."""
    digests, dot, _ = seal.partition(".")
    return tuple(digests.split(",")) if dot else (seal,)


__all__ = [
    "ENCRYPTED",
    "LIMIT_KEYS",
    "LONGEST_CLASS",
    "MARK",
    "MOST_DIGESTS",
    "UNOPENED",
    "UNSEALED",
    "class_of",
    "identities",
    "is_seal",
    "seal_of",
    "seal_of_text",
    "sealed_text",
    "sealed_value",
    "shown",
]
