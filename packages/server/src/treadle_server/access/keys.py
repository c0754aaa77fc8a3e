"""The keys that sign temporary credentials: stored in the database, so that all of its servers share them."""

import logging
import math
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import delete, func, insert, select, true, update

from treadle.wire.status import LEASED
from treadle_server.clock import Clock
from treadle_server.store.base import Tx
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import signing_keys, status_in, tasks

log = logging.getLogger(__name__)

FRESH_SECONDS = 5.0
"""How long the keys in memory are trusted: another server may have made a new one."""

KEPT = timedelta(hours=1)
"""The least time for which a retired key still verifies: for runs without a lease, and servers that learn late."""

SECRET_BYTES = 32
"""HS256 requires a key at least as long as its digest (RFC 7518, section 3.2)."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key: the newest one signs, the others verify until their end."""

    id: str
    secret: bytes = field(repr=False)
    created_at: datetime
    valid_until: datetime | None = None
    """None for the key that signs."""


class Keys:
    """The keys of this database, as this server knows them."""

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, SigningKey] = {}
        self._read_at = -math.inf

    async def prepare(self) -> None:
        """Read the keys, and make the first one in a new database. Raises `StoreUnavailable`."""
        await self._read()
        if not any(key.valid_until is None for key in self._known.values()):
            await self.rotate()

    async def look(self) -> None:
        """Read the keys again, unless they were read in the last `FRESH_SECONDS`. Raises `StoreUnavailable`."""
        if self._clock.monotonic() - self._read_at > FRESH_SECONDS:
            await self._read()

    @property
    def signing(self) -> SigningKey:
        """Return the key that signs: the newest, in case two servers made the first one at once."""
        return max((key for key in self._known.values() if key.valid_until is None), key=lambda key: key.created_at)

    async def find(self, key_id: str) -> SigningKey | None:
        """Return the key of this id if it still verifies, or None. Raises `StoreUnavailable`.

        An unknown key is looked up at once: another server may have just made it.
        """
        await self.look()
        if key_id not in self._known:
            await self._read()
        key = self._known.get(key_id)
        is_over = key is not None and key.valid_until is not None and key.valid_until <= self._clock.now()
        return None if is_over else key

    async def rotate(self, *, keeps_for: timedelta = timedelta(0), revokes: bool = False) -> list[SigningKey]:
        """Make a new key, which signs from now on; return all keys, newest first. Raises `StoreUnavailable`.

        The others verify until the last of the present leases has been over for `keeps_for`; with `revokes` they end
        at once.
        """
        now = self._clock.now()
        key = SigningKey(secrets.token_hex(8), secrets.token_bytes(SECRET_BYTES), now)
        async with self._store.write() as tx:
            until = max(now + KEPT, (await _last_lease(tx) or now) + keeps_for)
            over = true() if revokes else signing_keys.c.valid_until <= now
            await tx.connection.execute(delete(signing_keys).where(over))
            retired = update(signing_keys).where(signing_keys.c.valid_until.is_(None))
            await tx.connection.execute(retired.values(valid_until=until))
            made = {"id": key.id, "secret": key.secret, "created_at": key.created_at}
            await tx.connection.execute(insert(signing_keys), made)
        await self._read()
        log.info("key %s signs temporary credentials from now on", key.id)
        return sorted(self._known.values(), key=lambda one: (one.valid_until is None, one.created_at), reverse=True)

    async def _read(self) -> None:
        async with self._store.read() as connection:
            rows = list(await connection.execute(select(signing_keys)))
        self._known = {row.id: SigningKey(row.id, row.secret, row.created_at, row.valid_until) for row in rows}
        self._read_at = self._clock.monotonic()


async def _last_lease(tx: Tx) -> datetime | None:
    """Return when the last of the leases ends, or None if there is none."""
    last = select(func.max(tasks.c.taken_until)).where(status_in(*LEASED))
    found: datetime | None = (await tx.connection.execute(last)).scalar()
    return found
