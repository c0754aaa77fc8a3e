"""Checks that an encrypted task carries only sealed values, which the server can't read, and no plain ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from treadle.wire.sealed import MARK, UNOPENED, UNSEALED, identities, seal_of, seal_of_text
from treadle_server.errors import InvalidPayload, ValidationFailed

_BEGINNING = f'{{"{MARK}"'

_PLAIN = frozenset({"", UNOPENED, UNSEALED})
"""The plain texts that an encrypted task may carry."""

_HOW = "encrypt it with the task's codec (Client(codec=…), Worker(codec=…), or TREADLE_ENCRYPTION_KEYS)"


def is_sealed(text: str) -> bool:
    """Return whether a payload (JSON text) is sealed; if so, its task stays encrypted, whatever becomes of its job."""
    return text.startswith(_BEGINNING)


def check_payload(payload: Mapping[str, Any], job_name: str, *, encrypted: bool) -> None:
    """Raise `InvalidPayload` for a plain payload if it must be encrypted, and for a sealed one otherwise."""
    if encrypted and seal_of(payload) is None:
        raise InvalidPayload(
            f"payload: tasks of {job_name} are encrypted and this payload is not, so it was refused: {_HOW}"
        )
    if not encrypted and MARK in payload:
        raise InvalidPayload(
            f"payload: it is encrypted, but {job_name} is not registered as encrypted: register it with encrypted:"
            " true, or submit plain data"
        )


def check_words(values: Mapping[str, str | None], texts: Mapping[str, str | None]) -> None:
    """Check what an encrypted task is to keep: `values`, which are JSON text, and plain `texts`, each by its name.

    Raises `ValidationFailed` for whatever is not sealed; None and null are allowed.
    """
    for name, text in values.items():
        if text not in {None, "null"} and seal_in(text) is None:
            raise _refused(name)
    for name, text in texts.items():
        if text is not None and text not in _PLAIN and seal_of_text(text) is None:
            raise _refused(name)


def seal_in(text: str | None) -> str | None:
    """Return the seal of a sealed JSON value, given as text, or None if it is not sealed."""
    return seal_of(orjson.loads(text)) if text is not None and is_sealed(text) else None


def identity(text: str | None, number: int = 0) -> str | None:
    """Return what to compare instead of a JSON or plain text: the digest of a sealed one, otherwise the text itself.

    `number` selects among its digests; a seal with fewer gives its last one.
    """
    found = _digests(text)
    return found[min(number, len(found) - 1)] if found else text


def digests_in(text: str | None) -> int:
    """Return how many digests a sealed text has; 1 for any other text."""
    return len(_digests(text)) or 1


def _digests(text: str | None) -> Sequence[str]:
    if text is None or MARK not in text[:300]:
        return ()
    seal = seal_in(text) if is_sealed(text) else seal_of_text(text)
    return () if seal is None else identities(seal)


def _refused(name: str) -> ValidationFailed:
    return ValidationFailed(f"{name}: the task is encrypted and this is not, so it was refused: {_HOW}")
