"""Connections that are counted: each has a place among those that there may be, a stranger's or one with a token."""

from asyncio import Transport
from typing import Any

from treadle_server.access.addresses import plain
from treadle_server.serving.connection_limits import ConnectionLimits


class Counted:
    """A connection that has a place among those that are counted, and gives it free."""

    transport: Transport
    client: tuple[str, int] | None

    def __init__(self, *arguments: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.address = ""
        self._limits = limits
        self._is_in = False
        self._is_trusted = False

    def _come(self) -> None:
        """Take note of who has connected, and a place, if there is one."""
        if self.client is not None:
            self.address = plain(self.client[0])
            self.client = self.address, self.client[1]
        self._is_in = self._limits.enter(self)

    def trust(self) -> None:
        """Take note that a token was accepted."""
        if not self._is_trusted:
            self._is_trusted = True
            self._limits.trust(self)

    def drop(self) -> None:
        """Make place for somebody else."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        if self._is_in:
            self._is_in = False
            self._limits.leave(self)
