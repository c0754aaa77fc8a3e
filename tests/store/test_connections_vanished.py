"""A PostgreSQL whose host is gone without a word: no connection over TCP waits for it for ever."""

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from tests.servers.test_unknown import Cutter
from treadle_server.store.store import SqlStore

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


TCP = socket.IPPROTO_TCP
OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    (TCP, socket.TCP_KEEPIDLE),
    (TCP, socket.TCP_KEEPINTVL),
    (TCP, socket.TCP_KEEPCNT),
    (TCP, socket.TCP_USER_TIMEOUT),
)


@pytest.fixture
async def over_tcp(postgres_database: str) -> AsyncIterator[str]:
    """The database's URL at an address of TCP."""
    line, split = Cutter(postgres_database), urlsplit(postgres_database)
    listening = await asyncio.start_server(line.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    who = (split.username or "postgres") + (f":{split.password}" if split.password else "")
    yield f"postgresql://{who}@127.0.0.1:{port}{split.path}"
    listening.close()
    line.close()


async def test_the_system_asks_whether_the_host_is_there_and_breaks_the_connection_soon(
    over_tcp: str,
) -> None:
    """With the system's defaults statements waited for ever; so they ended 15 s after the host was gone."""
    store = SqlStore(over_tcp)
    await store.open()

    async with store.read() as reading, store.write() as writing:
        raw = await reading.get_raw_connection()
        _, writer = await writing.connection.open()  # type: ignore[attr-defined]
        lines = [one._transport.get_extra_info("socket") for one in (raw.driver_connection, writer)]
        told = [[line.getsockopt(level, option) for level, option in OPTIONS] for line in lines]

    await store.close()
    assert told == [[1, 5, 5, 2, 15_000]] * 2
