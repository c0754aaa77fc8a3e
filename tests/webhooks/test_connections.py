"""What a receiver sends holds nobody up, however much it is (E12, N5)."""

import asyncio
import socket
import struct
from itertools import pairwise
from typing import Any

import httpcore
import pytest

from tests.webhooks.conftest import LOOPBACK
from treadle_server.webhooks import connections
from treadle_server.webhooks.post import Post

pytestmark = pytest.mark.anyio


async def _flood(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 103 X\r\n\r\n" * 4096)
        await writer.drain()


async def test_of_interim_answers_without_an_end_few_are_read_e12(receiver) -> None:
    receiver.answers = [_flood]
    post = Post(timeout=20, allowed=LOOPBACK)

    answer = await post.send(receiver.url, b"{}", {})
    await post.close()

    assert answer.status is None
    assert str(answer.error).startswith(f"RemoteProtocolError: more than {connections.MOST} bytes")


async def test_of_a_connection_that_was_reset_its_reason_says_so(receiver) -> None:
    def reset(writer: asyncio.StreamWriter) -> Any:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return asyncio.sleep(0)

    receiver.answers = [reset]
    post = Post(timeout=20, allowed=LOOPBACK)

    answer = await post.send(receiver.url, b"{}", {})
    await post.close()

    assert "reset by peer" in str(answer.error)
    assert str(answer.error).startswith("ReadError: ")


async def test_what_came_at_once_is_read_in_pieces_between_which_others_go_on_e12(receiver, monkeypatch) -> None:
    pieces, others = [], 0
    real = httpcore.AnyIOBackend.connect_tcp

    async def connect(self: Any, *given: Any) -> Any:
        stream = await real(self, *given)
        read = stream.read

        async def count(*asked: Any) -> bytes:
            piece = await read(*asked)
            pieces.append((len(piece), others))
            return piece

        stream.read = count
        return stream

    async def go_on() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    receiver.answers = [_flood]
    post = Post(timeout=20, allowed=LOOPBACK)
    other = asyncio.create_task(go_on())

    await post.send(receiver.url, b"{}", {})
    await post.close()
    other.cancel()

    assert max(size for size, _ in pieces) <= connections.PIECE
    turns = [turn for _, turn in pieces]
    assert all(before < after for before, after in pairwise(turns))
