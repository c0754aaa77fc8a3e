"""Who asks, and the scopes that say what they may do."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from treadle.wire.ids import TaskId
from treadle_server.access.rights import plain_user_may
from treadle_server.access.scopes import EVERYTHING, satisfies
from treadle_server.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Principal:
    """The user behind a token or a temporary credential, and what it may do."""

    user: str
    superuser: bool = False
    scopes: frozenset[str] | None = None
    """None: a token made without scopes, which has the rights of a plain user."""
    run: tuple[TaskId, int] | None = None
    """The task and run for which a temporary credential stands."""
    expires_at: datetime | None = None
    """From when on it is nobody; None: never."""

    def may(self, scope: str) -> bool:
        """Return whether the scope is satisfied by what is held."""
        if self.superuser:
            return True
        return plain_user_may(scope) if self.scopes is None else satisfies(self.scopes, scope)

    def narrowed(self, to: Iterable[str]) -> Self:
        """Return who asks with no more than the scopes `to`. Raises `Forbidden` when one of them is not held."""
        wanted = frozenset(to)
        if lacking := sorted(scope for scope in wanted if not self.may(scope)):
            raise Forbidden(f"a request can't be narrowed to scopes that are not held: {', '.join(lacking)[:1000]}")
        return self if EVERYTHING in wanted else replace(self, superuser=False, scopes=wanted)


SYSTEM = Principal("treadle", superuser=True)
"""The server itself: sweeper, promoter, sessions that end."""
