"""Whether owners of webhooks and schedules may act: those of a user without a valid token are suspended."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Column, ColumnElement, exists, or_, select, true

from treadle_server.store.base import Tx
from treadle_server.store.tables import tokens


def acts(owner: Column[str], at: datetime | None) -> ColumnElement[bool]:
    """Return the condition that the owner has a token that is valid at the instant; None: nobody needs one."""
    return true() if at is None else exists(select(tokens.c.id).where(tokens.c.user == owner, *_valid(at)))


def _valid(at: datetime) -> tuple[ColumnElement[bool], ...]:
    return (tokens.c.revoked_at.is_(None), or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > at))


async def acting(tx: Tx, owners: Collection[str], at: datetime | None) -> set[str]:
    """Return the users who have a token that is valid at the instant; None means all."""
    if at is None or not owners:
        return set(owners)
    found = select(tokens.c.user).where(tokens.c.user.in_(sorted(owners)), *_valid(at)).distinct()
    return set((await tx.connection.execute(found)).scalars())


def why_still(owner: str, *, acts: bool) -> str | None:
    """Return a message on why the user's webhooks and schedules are suspended; None when the user `acts`."""
    return None if acts else f"{owner!r} has no valid token: it goes on when a token is made for them"
