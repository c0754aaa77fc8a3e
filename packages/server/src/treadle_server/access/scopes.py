"""Scopes: what they are made of, and which one satisfies which.

A scope is a text such as `queue:read:lab`. A `*` at the end of one that is *held* stands for any suffix, the empty one
too: `queue:read:*` satisfies `queue:read:lab`. In one that is *wanted* it stands for all of these suffixes, so that
`queue:read:lab` does not satisfy `queue:read:*`, and only what reaches at least as far does.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from treadle_server.access.rights import misspelt
from treadle_server.errors import ValidationFailed

EVERYTHING = "*"
"""The superuser's scope."""

MOST_SCOPES = 100
LONGEST_SCOPE = 200


def satisfies(held: AbstractSet[str], wanted: str) -> bool:
    """Return whether one of the scopes that are held reaches as far as the one that is wanted."""
    return wanted in held or any(scope[-1:] == "*" and wanted.startswith(scope[:-1]) for scope in held)


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Return the scopes in their order, each once.

    Raises `ValidationFailed` for more than `MOST_SCOPES` of them, and for one that is empty, has more than
    `LONGEST_SCOPE` characters, holds a space or what can't be printed, or `**`.
    """
    if len(scopes) > MOST_SCOPES:
        raise ValidationFailed(f"scopes: {len(scopes)} are more than {MOST_SCOPES}; a trailing * stands for many")
    for i, scope in enumerate(scopes):
        if (fault := _fault(scope)) is not None:
            raise ValidationFailed(f"scopes.{i}: {scope[:LONGEST_SCOPE]!r} {fault}")
    return tuple(dict.fromkeys(scopes))


def check_new(scopes: Sequence[str]) -> tuple[str, ...]:
    """Return scopes that are to be given, as `check_scopes`; those that were given before stay as they are.

    Raises `ValidationFailed` also for one that begins as Treadle's own do and would allow nothing.
    """
    checked = check_scopes(scopes)
    for i, scope in enumerate(scopes):
        if (fault := misspelt(scope)) is not None:
            raise ValidationFailed(f"scopes.{i}: {scope!r} {fault}")
    return checked


def _fault(scope: str) -> str | None:
    """Return what is wrong with a scope."""
    if not scope:
        return "is empty: leave it out"
    if len(scope) > LONGEST_SCOPE:
        return f"has {len(scope)} characters, more than {LONGEST_SCOPE}"
    if not scope.isprintable() or " " in scope:
        return "holds a space or a control character: leave it out"
    if "**" in scope:
        return "holds **: one * at the end stands for any suffix already"
    return None
