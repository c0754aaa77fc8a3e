"""The line between a server and PostgreSQL, which can also break when a commit is done and nobody was told."""

import asyncio
from collections import deque
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.chaos.wires import Wire

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""What PostgreSQL answers when a commit is done."""


class DatabaseWire(Wire):
    """Passes bytes between one server and PostgreSQL's socket."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._database = urlsplit(url)
        self._path = parse_qs(self._database.query)["host"][0] + "/.s.PGSQL.5432"
        self.is_mute = False
        """Whether connections break instead of telling that a commit is done."""

    @property
    def database_url(self) -> str:
        """The database's URL through this line."""
        port, name = urlsplit(self.url).port, self._database.path
        return f"postgresql://{self._database.username or 'postgres'}@127.0.0.1:{port}{name}"

    async def reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the database's socket."""
        return await asyncio.open_unix_connection(self._path)

    def cut_at(self, data: bytes, *, is_sent: bool) -> int | None:
        """Break also right after a commit."""
        if self.is_mute and not is_sent and COMMITTED in data:
            return 0
        return super().cut_at(data, is_sent=is_sent)


def forgetful(wire: Wire) -> Wire:
    """Have a line remember nothing of what passes: a storm sends a lot."""
    remembered: Any = deque(maxlen=1)
    wire.sent = remembered
    return wire
