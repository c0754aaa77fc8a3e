"""When a connection counts as dead: not while something arrives over it, however slowly."""

import asyncio
import struct
from typing import Any

import pytest
from pydantic_core import to_json
from websockets.asyncio.server import ServerConnection
from websockets.frames import Opcode

from tests.waiting import until
from tests.worker.fakes import fake_server, session_to
from treadle.transport import dialing, session

pytestmark = pytest.mark.anyio


class SlowFrame:
    """An answer in one frame, of which a piece is sent at each `go_on`; what else is to be sent waits behind it."""

    def __init__(self, ws: ServerConnection, answer: dict[str, Any]) -> None:
        body = to_json({"items": [answer]})
        self._left = b"\x81\x7f" + struct.pack("!Q", len(body)) + body
        self._ws = ws

    def go_on(self, number: int = 2_000) -> None:
        """Send a piece, of so many bytes."""
        piece, self._left = self._left[:number], self._left[number:]
        self._ws.transport.write(piece)


LARGE = {"result": "x" * 40_000}


async def test_a_connection_is_kept_while_a_large_frame_arrives_behind_which_the_answers_to_pings_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that took longer than a ping and its answer broke each connection, for ever, and without a word."""
    monkeypatch.setattr(dialing, "PING", 0.01)

    def begin(item: dict[str, Any]) -> None:
        [ws] = fake.connections
        answer, send = SlowFrame(ws, {"re": item["n"], "ok": LARGE}), ws.protocol.send_frame
        # For each ping a piece, in place of a pong.
        ws.protocol.send_frame = (  # type: ignore[method-assign]
            lambda frame: answer.go_on() if frame.opcode is Opcode.PONG else send(frame)
        )

    async with fake_server(begin) as fake, session_to(fake) as opened:
        async with asyncio.timeout(20):
            assert await opened.call("large") == LARGE

        assert len(fake.connections) == 1


async def test_a_connection_over_which_nothing_comes_is_broken_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "SILENCE", 0.05)
    monkeypatch.setattr(session, "LOOKS", 0.01)

    async with fake_server(lambda _: None) as fake, session_to(fake):
        await until(lambda: len(fake.connections) > 1)


async def test_who_gets_no_answer_does_not_break_a_connection_over_which_a_large_frame_arrives() -> None:
    """A worker did, each ten seconds, so that it never got a task that takes longer to arrive."""
    async with fake_server(lambda _: None) as fake, session_to(fake) as opened:
        asking = asyncio.ensure_future(opened.call("large"))
        await until(lambda: fake.items)
        frame = SlowFrame(fake.connections[0], {"re": fake.items[0]["n"], "ok": LARGE})

        for _ in range(3):
            before = opened.received
            frame.go_on()
            await until(lambda before=before: opened.received == before + 2_000)  # type: ignore[misc]
            opened.drop()
        frame.go_on(100_000)

        assert await asking == LARGE
        assert len(fake.connections) == 1
        opened.drop()
        await until(lambda: len(fake.connections) > 1)
