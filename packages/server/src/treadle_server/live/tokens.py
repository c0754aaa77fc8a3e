"""Ends the sessions of revoked tokens: at once for tokens revoked here, within seconds for others."""

import asyncio
from collections.abc import Awaitable, Collection

from treadle_server.access.tokens import FRESH_SECONDS, Access
from treadle_server.errors import Unauthorized
from treadle_server.live.connection import UNAUTHORIZED, Connection
from treadle_server.services.base import Service


class SessionTokens(Service):
    """Checks the tokens of all sessions again, whenever one was revoked and at intervals."""

    name = "tokens"
    everywhere = True

    def __init__(self, access: Access, sessions: Collection[Connection]) -> None:
        super().__init__()
        self._access = access
        self._sessions = sessions
        self._revoked = access.revoked

    async def turn(self) -> float:
        """Check all tokens. Raises `StoreUnavailable` when they can't be looked up."""
        self._revoked = self._access.revoked
        ended: list[Awaitable[None]] = []
        for session in list(self._sessions):
            try:
                await self._access.principal(session.token)
            except Unauthorized as error:
                ended.append(session.close(UNAUTHORIZED, error.detail))
        # Concurrently, because a client that does not read delays its close frame.
        await asyncio.gather(*ended)
        return FRESH_SECONDS

    async def wait(self, seconds: float) -> None:
        """Wait until a token is revoked, or until tokens have to be checked again."""
        await self._access.until_unconfirmed(self._revoked)
