"""What an encrypted task may carry: sealed values, which the server can't read, and nothing else by mistake."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from treadle.wire.sealed import MARK, UNOPENED, UNSEALED, identities, seal_of, seal_of_text
from treadle_server.errors import InvalidPayload, ValidationFailed

_BEGINNING = f'{{"{MARK}"'

_PLAIN = frozenset({"", UNOPENED, UNSEALED})
"""What a text of an encrypted task may say for all to read."""

_HOW = "seal it with the task's codec (Client(codec=…), Worker(codec=…), or TREADLE_ENCRYPTION_KEYS)"


def is_sealed(text: str) -> bool:
    """Return whether a payload, JSON text, is a sealed one; its task is encrypted then, whatever becomes of its job."""
    return text.startswith(_BEGINNING)


def check_payload(payload: Mapping[str, Any], job_name: str, *, encrypted: bool) -> None:
    """Raise `InvalidPayload` for a plain payload where encrypted ones are wanted, and for a sealed one elsewhere."""
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
    """Check what is to be kept of an encrypted task, by its name: JSON texts, and plain ones.

    Raises `ValidationFailed` for what is not sealed; nothing and null may be said.
    """
    for name, text in values.items():
        if text not in {None, "null"} and seal_in(text) is None:
            raise _refused(name)
    for name, text in texts.items():
        if text is not None and text not in _PLAIN and seal_of_text(text) is None:
            raise _refused(name)


def seal_in(text: str | None) -> str | None:
    """Return the seal of a sealed JSON value, given as text; None when it is none."""
    return seal_of(orjson.loads(text)) if text is not None and is_sealed(text) else None


def identity(text: str | None, number: int = 0) -> str | None:
    """Return what stands for a JSON text or a plain text when two are compared: of a sealed one its digest.

    `number` says which of its digests; a seal with fewer gives its last one.
    """
    found = _digests(text)
    return found[min(number, len(found) - 1)] if found else text


def digests_in(text: str | None) -> int:
    """Return how many digests a sealed text has; 1 of any other."""
    return len(_digests(text)) or 1


def _digests(text: str | None) -> Sequence[str]:
    if text is None or MARK not in text[:300]:
        return ()
    seal = seal_in(text) if is_sealed(text) else seal_of_text(text)
    return () if seal is None else identities(seal)


def _refused(name: str) -> ValidationFailed:
    return ValidationFailed(f"{name}: the task is encrypted and this is not, so it was refused: {_HOW}")
