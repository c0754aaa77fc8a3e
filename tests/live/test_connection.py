"""A client that does not read, as one whose network died without a word: nobody waits for it, and it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Frame, Opcode

from tests.live.sockets import Socket, connected
from tests.waiting import until
from treadle_server.live import connection
from treadle_server.live.connection import UNAUTHORIZED
from treadle_server.live.live import Live
from treadle_server.testing import Served, serve

PATIENCE = 30
MORE = "x" * 16_000_000
"""More than both sides' buffers of a connection take."""


@asynccontextmanager
async def unread(served: Served, **worker: Any) -> AsyncIterator[Socket]:
    """A session whose client has read nothing of a large push."""
    live: Live = served.app.state.live
    before = set(live._sessions)
    async with connected(served) as socket:
        if worker:
            await socket.call("open", worker=worker)
        [session] = live._sessions - before
        socket.connection.transport.pause_reading()
        session.push("result", tasks=[MORE])
        # It is taken out of the outbox once, and stays with the connection.
        await until(lambda: not session.outbox._items)
        yield socket
        socket.connection.transport.abort()


async def test_a_worker_that_is_back_need_not_wait_for_its_old_connection(served: Served) -> None:
    own = {"id": "01a21464-a5a2-7272-aa20-26a4eef7869f"}
    async with unread(served, **own), connected(served) as again:
        async with asyncio.timeout(PATIENCE):
            opened = await again.call("open", worker=own)

    assert opened["worker"]["id"] == own["id"]


async def test_a_session_that_ends_is_gone_though_its_client_does_not_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "GOODBYE_SECONDS", 0.1)
    live: Live = served.app.state.live
    async with unread(served):
        [session] = live._sessions

        async with asyncio.timeout(PATIENCE):
            await session.close(UNAUTHORIZED, "the token is not valid here")

        await until(lambda: not live._sessions, seconds=PATIENCE)


async def test_a_server_stops_though_a_client_does_not_read(tmp_path: Path) -> None:
    async with serve(None, data_dir=tmp_path / "data") as served:
        stopping = served.app.state.live.close
        async with unread(served), asyncio.timeout(PATIENCE):
            await stopping()


async def test_who_reads_nothing_for_the_time_of_a_ping_is_gone(tmp_path: Path) -> None:
    """It answers no ping either, and uvicorn closed it when it had read what it never read."""
    async with serve(None, data_dir=tmp_path / "data", session_ping_seconds=0.2) as served, unread(served):
        await until(lambda: not served.app.state.live._sessions, seconds=PATIENCE)


async def test_who_sends_something_is_kept_though_no_ping_is_answered_and_gone_when_nothing_more_comes(
    tmp_path: Path,
) -> None:
    """An answer may wait for a large frame to arrive: a client with a slow network lost each connection over it."""
    async with (
        serve(None, data_dir=tmp_path / "data", session_ping_seconds=0.2) as served,
        connected(served) as socket,
    ):
        protocol, pings = socket.connection.protocol, 0

        def answer(frame: Frame) -> None:
            nonlocal pings
            pings += 1
            if pings < 5:
                send(Frame(Opcode.PONG, b"an answer to another ping"))

        send, protocol.send_frame = protocol.send_frame, answer  # type: ignore[method-assign]

        await until(lambda: not served.app.state.live._sessions, seconds=PATIENCE)

        assert pings >= 5
