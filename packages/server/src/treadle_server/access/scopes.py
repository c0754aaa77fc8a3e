"""Scopes: their syntax, and which scope satisfies which.

A scope is a text such as `queue:read:lab`. A `*` at the end of a scope that is *held* stands for any suffix, including
an empty one: `queue:read:*` satisfies `queue:read:lab`. In a scope that is *wanted* it stands for all suffixes:
`queue:read:lab` does not satisfy `queue:read:*`; only a scope that is at least as wide does.
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
    """Return whether one of the scopes that are held is at least as wide as the one that is wanted."""
    return wanted in held or any(scope[-1:] == "*" and wanted.startswith(scope[:-1]) for scope in held)


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Return the scopes in their order, without repetitions.

    Raises `ValidationFailed` for more than `MOST_SCOPES` of them, and for a scope that is empty, has more than
    `LONGEST_SCOPE` characters, or contains a space, an unprintable character or `**`.
    """
    if len(scopes) > MOST_SCOPES:
        raise ValidationFailed(
            f"scopes: {len(scopes)} are given, and {MOST_SCOPES} allowed; a trailing * stands for many"
        )
    for i, scope in enumerate(scopes):
        if (fault := _fault(scope)) is not None:
            raise ValidationFailed(f"scopes.{i}: {scope[:LONGEST_SCOPE]!r} {fault}")
    return tuple(dict.fromkeys(scopes))


def check_new(scopes: Sequence[str]) -> tuple[str, ...]:
    """Check scopes that are to be granted, as `check_scopes` does; scopes granted earlier are not affected.

    Raises `ValidationFailed` also for a scope that has Treadle's prefix but would allow nothing.
    """
    checked = check_scopes(scopes)
    for i, scope in enumerate(scopes):
        if (fault := misspelt(scope)) is not None:
            raise ValidationFailed(f"scopes.{i}: {scope!r} {fault}")
    return checked


def _fault(scope: str) -> str | None:
    """Return what is wrong with a scope; None if nothing."""
    if not scope:
        return "is empty: leave it out"
    if len(scope) > LONGEST_SCOPE:
        return f"has {len(scope)} characters, more than {LONGEST_SCOPE}"
    if not scope.isprintable() or " " in scope:
        return "contains a space or a control character: leave it out"
    if "**" in scope:
        return "contains **: one * at the end already stands for any suffix"
    return None
