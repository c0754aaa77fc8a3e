"""Sockets that fail: whoever is told so hears it, whatever he was sending."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio

HELLO = json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1}]}).encode()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(None, data_dir=tmp_path / "data") as served:
        yield served


def frame(payload: bytes, length: int | None = None) -> bytes:
    """Return a text frame, masked with zeros, that claims to be so long."""
    return bytes([0x81, 0xFF]) + (len(payload) if length is None else length).to_bytes(8, "big") + bytes(4) + payload


async def test_who_sends_a_frame_that_is_too_large_hears_1009_while_it_is_still_sent(served: Served) -> None:
    address = served.url.removeprefix("http://")
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"GET /v1/session HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {served.token}\r\n\r\n"
    )
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(frame(HELLO))
    await reader.readuntil(b"]}")

    writer.write(frame(b"x" * (20 << 20)))
    await writer.drain()
    told = await reader.read()

    # A close frame, its length, and 1009.
    assert told[:1] == b"\x88"
    assert int.from_bytes(told[2:4], "big") == 1009
    writer.close()
    await writer.wait_closed()
