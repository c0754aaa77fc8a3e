"""N3: a client that reads nothing of its answers keeps neither them nor its place for ever."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.serving.test_connection_limits import PATIENCE, Raw
from tests.waiting import until
from treadle_server.serving import connections
from treadle_server.serving.connections import HttpConnection
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio


async def test_who_reads_nothing_of_an_answer_is_gone_in_time_n3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a token: one without is dropped when somebody else comes."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.1)
    async with serve(None, data_dir=tmp_path / "data", max_connections_per_address=1) as served:
        raw = await Raw.open(served)
        ask = f"GET /v1/openapi.json HTTP/1.1\r\nHost: treadle\r\nAuthorization: Bearer {served.token}\r\n\r\n".encode()
        raw.writer.write(ask.replace(b"openapi.json", b"stats"))
        await raw.reader.readuntil(b"\r\n\r\n")
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        # The answers are more than both sides' buffers of a connection take.
        raw.writer.write(ask * 100)

        async def has_place() -> bool:
            async with httpx.AsyncClient(base_url=served.url, timeout=PATIENCE) as client:
                return (await client.get("/healthz")).status_code == 200

        await until(has_place, seconds=PATIENCE)
        raw.writer.transport.abort()


class Unread:
    """A transport whose other end reads as much as is told."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.is_closed = self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.left

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


async def test_an_idle_connection_ends_though_its_last_answer_is_not_read_n3(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is too little for whoever writes to be told to wait, and closing waits until it is read."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.05)
    connection = HttpConnection.__new__(HttpConnection)
    connection.loop, transport = asyncio.get_running_loop(), Unread(1000)
    connection.transport = transport  # type: ignore[assignment]

    connection.timeout_keep_alive_handler()

    assert transport.is_closed
    await until(lambda: transport.is_aborted, seconds=PATIENCE)


async def test_who_reads_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = HttpConnection.__new__(HttpConnection)
    connection.loop, transport = asyncio.get_running_loop(), Unread(1000)
    connection.transport = transport  # type: ignore[assignment]
    connection.expect_reading(is_expected=True)

    for left in (900, 10):
        before, transport.left = transport.left, left
        connection._look_at_unread(before)

        assert connection._unread is not None
        assert not transport.is_aborted
    connection._look_at_unread(10)

    assert transport.is_aborted
    connection.expect_reading(is_expected=False)
