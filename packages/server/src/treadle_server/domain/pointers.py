"""Keys of limits that a job takes from its tasks' payloads, by JSON pointers."""

from typing import Any

from treadle.wire.pointers import is_pointer, key_at
from treadle.wire.sealed import LIMIT_KEYS, MARK
from treadle_server.errors import ValidationFailed


def pointed(name: str, key: str | None, content: Any) -> str | None:
    """Return the key that a job's registration means for this payload; None if there is nothing where it points.

    For a sealed payload it is what its submitter has found there and put beside the seal. Raises `ValidationFailed` for
    a value that can't be a key, and for a sealed payload without it.
    """
    if key is None or not is_pointer(key):
        return key
    if MARK in content:
        if key not in (keys := content.get(LIMIT_KEYS, {})):
            raise ValidationFailed(
                f"limits: the payload is encrypted, and {LIMIT_KEYS} beside its seal lacks the key {key} of {name}:"
                " submit it with a newer SDK, or with a client whose task has the limits that the job has now"
            )
        found: str | None = keys[key]
        return found
    try:
        return key_at(key, content)
    except ValueError as error:
        raise ValidationFailed(f"limits: the key {key} of {name} {error}") from None
