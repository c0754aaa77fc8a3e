"""What executors show to the server: a token of their own, which reports of runs and does nothing else, for a while."""

import secrets
from datetime import datetime, timedelta

import orjson
from sqlalchemy import insert
from uuid_utils import uuid7

from treadle.wire.names import INTERNAL
from treadle_server.access.rights import WORKER_ID
from treadle_server.access.tokens import digest_of
from treadle_server.operations.context import OperationContext
from treadle_server.store.tables import tokens

MARGIN = timedelta(minutes=1)
"""How long a token outlives the last run that it was given to: its last report may still be on its way."""

SCOPES = (f"{WORKER_ID}{INTERNAL}/*",)
"""It is the executors' own worker, and so reaches the runs of that one alone, never another worker's."""


class InternalToken:
    """Makes a token, and another before runs could outlive it; each ends by itself."""

    def __init__(self, ctx: OperationContext) -> None:
        self._ctx = ctx
        self._secret = ""
        self._fresh_until: datetime | None = None

    async def current(self) -> str:
        """Return a token that lives as long as a run that is claimed now may. Raises `StoreUnavailable`."""
        now = self._ctx.now()
        if self._fresh_until is None or now >= self._fresh_until:
            longest = timedelta(seconds=self._ctx.settings.internal_task_timeout_seconds)
            self._secret = await self._make(now, now + 2 * longest + MARGIN)
            self._fresh_until = now + longest
        return self._secret

    async def _make(self, now: datetime, expires_at: datetime) -> str:
        secret = f"tdl_{secrets.token_urlsafe(32)}"
        values = {
            "id": str(uuid7()),
            "name": "executors",
            "user": INTERNAL,
            "digest": digest_of(secret),
            "superuser": False,
            "scopes": orjson.dumps(SCOPES).decode(),
            "created_at": now,
            "expires_at": expires_at,
        }
        async with self._ctx.engine.store.write() as tx:
            await tx.connection.execute(insert(tokens), values)
        return secret
