"""Connections that count towards the limits, as strangers or with a token."""

from asyncio import Transport
from typing import Any

from treadle_server.access.addresses import plain
from treadle_server.serving.connection_limits import ConnectionLimits


class HoldsPlace:
    """A connection that takes a place within the limits, and frees it at its end."""

    transport: Transport
    client: tuple[str, int] | None

    def __init__(self, *arguments: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.address = ""
        self._limits = limits
        self._is_in = False
        self._is_trusted = False

    def _come(self) -> None:
        """Note the client's address, and take a place if there is one."""
        if self.client is not None:
            self.address = plain(self.client[0])
            self.client = self.address, self.client[1]
        self._is_in = self._limits.enter(self)

    def trust(self) -> None:
        """Note that a token was accepted."""
        if not self._is_trusted:
            self._is_trusted = True
            self._limits.trust(self)

    def drop(self) -> None:
        """Close the connection to make room for another."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        if self._is_in:
            self._is_in = False
            self._limits.leave(self)
