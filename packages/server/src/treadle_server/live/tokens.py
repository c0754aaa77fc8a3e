"""Ends the sessions whose token was revoked: here at once, at another server within seconds."""

import asyncio
from collections.abc import Awaitable, Collection

from treadle_server.access.tokens import FRESH_SECONDS, Access
from treadle_server.errors import Unauthorized
from treadle_server.live.connection import UNAUTHORIZED, Connection
from treadle_server.services.base import Service


class SessionTokens(Service):
    """Looks the tokens of all sessions up again, whenever one was revoked and now and then."""

    name = "tokens"
    everywhere = True

    def __init__(self, access: Access, sessions: Collection[Connection]) -> None:
        super().__init__()
        self._access = access
        self._sessions = sessions
        self._revoked = access.revoked

    async def turn(self) -> float:
        """Look once. Raises `StoreUnavailable`: nobody can be asked."""
        self._revoked = self._access.revoked
        ended: list[Awaitable[None]] = []
        for session in list(self._sessions):
            try:
                await self._access.principal(session.token)
            except Unauthorized as error:
                ended.append(session.close(UNAUTHORIZED, error.detail))
        # Side by side: one that does not read takes as long as a good-bye may.
        await asyncio.gather(*ended)
        return FRESH_SECONDS

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until a token is revoked."""
        await self._access.until_unconfirmed(self._revoked)
