"""Who asks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The user behind a token, and what the token may do."""

    user: str
    superuser: bool = False
    scopes: frozenset[str] | None = None
    """None: a token made without scopes."""


SYSTEM = Principal("treadle", superuser=True)
"""The server itself: sweeper, promoter, sessions that end."""
