"""The executors' own short-lived token for the server, which can report on runs and nothing else."""

from datetime import datetime, timedelta

from treadle.wire.names import INTERNAL
from treadle_server.access.rights import WORKER_ID
from treadle_server.access.tokens import new_token
from treadle_server.operations.context import OperationContext

MARGIN = timedelta(minutes=1)
"""How long a token outlives the last run that it was given to, for the run's last report."""

SCOPES = (f"{WORKER_ID}{INTERNAL}/*",)
"""It acts as the executors' own worker, so it reaches only that worker's runs."""


class InternalToken:
    """Makes a token, and a new one before runs could outlive the old; each expires."""

    def __init__(self, ctx: OperationContext) -> None:
        self._ctx = ctx
        self._secret = ""
        self._fresh_until: datetime | None = None

    async def current(self) -> str:
        """Return a token that outlives any run that is claimed now. Raises `StoreUnavailable`."""
        now = self._ctx.now()
        if self._fresh_until is None or now >= self._fresh_until:
            longest = timedelta(seconds=self._ctx.settings.internal_task_timeout_seconds)
            expires_at = now + 2 * longest + MARGIN
            token = new_token()
            await self._ctx.access.issue(token, "executors", user=INTERNAL, scopes=SCOPES, expires_at=expires_at)
            self._secret, self._fresh_until = token, now + longest
        return self._secret
