"""The principal of a request, and what it may do."""

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
    """The user behind a token or a temporary credential, with its rights."""

    user: str
    superuser: bool = False
    scopes: frozenset[str] | None = None
    """None: a token made without scopes, which has the rights of a plain user."""
    run: tuple[TaskId, int] | None = None
    """The task and run of a temporary credential."""
    expires_at: datetime | None = None
    """When it is no longer valid; None: never."""

    def may(self, scope: str) -> bool:
        """Return whether the principal holds the scope, or a wider one."""
        if self.superuser:
            return True
        return plain_user_may(scope) if self.scopes is None else satisfies(self.scopes, scope)

    def narrowed(self, to: Iterable[str]) -> Self:
        """Return the principal with only the scopes `to`. Raises `Forbidden` if it does not hold one of them."""
        wanted = frozenset(to)
        if lacking := sorted(scope for scope in wanted if not self.may(scope)):
            raise Forbidden(f"a request can't be narrowed to scopes that are not held: {', '.join(lacking)[:1000]}")
        return self if EVERYTHING in wanted else replace(self, superuser=False, scopes=wanted)


SYSTEM = Principal("treadle", superuser=True)
"""The server itself: the sweeper, the promoter, sessions that end."""
