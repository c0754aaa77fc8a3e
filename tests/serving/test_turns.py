"""N3: a flood of small things, of strangers or not, neither holds the loop nor fills the memory."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from tests.api.rooms import make_room
from tests.operations.heavy import watched
from tests.serving.test_connection_limits import PATIENCE, Raw, well
from tests.serving.test_connections_going import UPGRADE, Transport
from tests.waiting import until
from treadle_server.serving import connections, turns
from treadle_server.serving.connections import MOST_FRAGMENTS, SocketConnection
from treadle_server.serving.turns import PIECE, TURN_SECONDS, InTurns
from treadle_server.testing import Served, serve

HELLO = json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1}]}).encode()
ASK = b"GET /healthz HTTP/1.1\r\nHost: treadle\r\n\r\n"
FLOOD = 40_000
"""Frames that come at once; parsed at once they hold the loop for a third of a second or more."""

HELD = 0.15
"""Seconds of work in one piece that the loop may have here, where the client has its part in them."""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(None, data_dir=tmp_path / "data") as served:
        yield served


def frame(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    """A frame as clients send them."""
    return Frame(opcode, data, fin).serialize(mask=True)


EMPTY = {
    "frames of a message without end": frame(Opcode.TEXT, b" ", fin=False) + frame(Opcode.CONT, fin=False) * FLOOD,
    "pings": frame(Opcode.PING) * FLOOD,
    "messages": frame(Opcode.TEXT, b"{}") + frame(Opcode.PING) * FLOOD,
}


@pytest.mark.parametrize("kind", EMPTY)
async def test_a_stranger_who_sends_many_frames_is_dropped(served: Served, kind: str) -> None:
    raw = await Raw.open(served)
    await raw.upgrade()

    async with watched() as gap:
        raw.writer.write(EMPTY[kind])
        await raw.rest()

    assert gap.seconds < HELD
    await well(served)


async def test_a_message_of_endlessly_many_frames_is_refused_and_holds_nobody(served: Served) -> None:
    raw = await Raw.open(served)
    await raw.upgrade(f"Authorization: Bearer {served.token}")
    raw.writer.write(frame(Opcode.TEXT, HELLO))
    await raw.reader.readuntil(b"}")

    async with watched() as gap:
        raw.writer.write(EMPTY["frames of a message without end"])
        answer = await raw.rest()

    # What was not read when the server closes may reset the connection before its answer is.
    assert answer == b"" or b"a message may have 16384 frames at most" in answer
    assert gap.seconds < HELD
    await well(served)


async def test_a_message_in_many_frames_is_read_and_what_comes_behind_it(served: Served) -> None:
    ask = json.dumps({"items": [{"op": "ping", "n": 7}]}).encode()
    cut = [frame(Opcode.CONT if i else Opcode.TEXT, ask[i : i + 1], fin=i == len(ask) - 1) for i in range(len(ask))]
    spaced = frame(Opcode.TEXT, b"{", fin=False) + frame(Opcode.CONT, b" ", fin=False) * (MOST_FRAGMENTS // 2)
    raw = await Raw.open(served)
    await raw.upgrade(f"Authorization: Bearer {served.token}")

    raw.writer.write(frame(Opcode.TEXT, HELLO))
    await raw.reader.readuntil(b"}")

    raw.writer.write(spaced + frame(Opcode.CONT, ask[1:]) + b"".join(cut) * 50)

    async with asyncio.timeout(PATIENCE):
        said = b""
        while said.count(b'"re":7') < 51:
            said += await raw.reader.read(65_536)
    raw.writer.close()


async def test_all_connections_that_flood_together_hold_the_loop_no_longer_than_one_n3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each had five milliseconds in every round of the loop: of twenty that flooded, others waited for seconds."""
    now = 0.0
    parsed: Counter[int] = Counter()
    this_round = 0

    class Flooding(InTurns):
        loop = asyncio.get_running_loop()

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.transport = SimpleNamespace(  # type: ignore[assignment]
                is_closing=lambda: False, pause_reading=lambda: None, resume_reading=lambda: None
            )

        def _has_place(self) -> bool:
            return True

        def _parse(self, piece: bytes) -> None:
            nonlocal now
            now += 0.001
            parsed[this_round] += 1

    monkeypatch.setattr(turns, "perf_counter", lambda: now)
    together = turns.Turns()
    flooding = [Flooding(turns=together) for _ in range(20)]
    small = [Flooding(turns=together) for _ in range(20)]
    for one, other in zip(flooding, small, strict=True):
        one.data_received(b"x" * 10 * PIECE)
        other.data_received(b"x")
    while sum(parsed.values()) < 220:
        this_round += 1
        await asyncio.sleep(0)

    # What comes, and what has waited for its turn; the piece that is begun is parsed whole.
    assert max(parsed.values()) * 0.001 <= 2 * TURN_SECONDS + 0.002
    assert min(parsed.values()) > 0


async def test_who_waits_for_a_turn_has_it_though_another_can_not_parse_what_it_was_sent() -> None:
    seen = []

    class Broken(InTurns):
        def take_turn(self, end: float) -> None:
            seen.append(end)
            raise ZeroDivisionError

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    together = turns.Turns()
    for _ in range(2):
        one = Broken(turns=together)
        one.loop = loop
        one.take_turn_soon()
    await until(lambda: len(seen) == 2, pause=0)


def test_to_a_client_that_does_not_read_only_the_last_of_its_pings_is_answered_when_it_does() -> None:
    connection = SocketConnection.__new__(SocketConnection)
    transport = connection.transport = Transport()  # type: ignore[assignment]
    connection.conn, connection.writable, connection._late_pong = ServerProtocol(), asyncio.Event(), []
    connection._is_trusted, connection._unread = True, None
    connection.conn.receive_data(UPGRADE)
    [request] = connection.conn.events_received()
    connection.conn.send_response(connection.conn.accept(request))  # type: ignore[arg-type]
    connection.conn.data_to_send()

    for n in range(0, 100, 2):
        connection.conn.receive_data(frame(Opcode.PING, b"%d" % n) + frame(Opcode.PING, b"%d" % (n + 1)))
        connection.handle_events()
    written = transport.written
    connection.resume_writing()

    assert (written, transport.written) == (b"", Frame(Opcode.PONG, b"99").serialize(mask=False))


async def test_of_requests_that_come_all_at_once_those_in_front_alone_are_parsed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = []
    _before(monkeypatch, "on_response_complete", lambda connection: waiting.append(len(connection.pipeline)))
    raw = await Raw.open(served)

    async with watched() as gap:
        raw.writer.write(ASK * 2_000 + ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answers = await raw.rest()

    assert answers.count(b"200 OK") == 2_001
    assert gap.seconds < HELD
    assert max(waiting) <= PIECE / len(ASK) + 1


async def test_behind_requests_that_came_at_once_the_next_one_is_read(served: Served) -> None:
    head = f"POST /v1/workers HTTP/1.1\r\nHost: treadle\r\nAuthorization: Bearer {served.token}\r\n".encode()
    with_body = head + b"Content-Length: 2\r\n\r\n{}"
    for first in (ASK * 3, with_body + ASK, with_body * 2):
        raw = await Raw.open(served)
        raw.writer.write(first)
        async with asyncio.timeout(PATIENCE):
            said = b""
            while said.count(b"HTTP/1.1 20") < first.count(b"Host:"):
                said += await raw.reader.read(65_536)

        raw.writer.write(ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

        assert b"200 OK" in await raw.rest()


def _before(monkeypatch: pytest.MonkeyPatch, name: str, look: Callable[[Any], None]) -> None:
    """Have `look` called before a method of uvicorn's connections."""
    method = getattr(HttpToolsProtocol, name)

    def looked(connection: Any) -> None:
        look(connection)
        method(connection)

    monkeypatch.setattr(HttpToolsProtocol, name, looked)


async def test_nothing_is_waited_for_on_a_connection_that_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uvicorn tells it the last request of a connection alone, and the one before is answered to nobody."""
    asked: list[Any] = []
    _before(monkeypatch, "on_headers_complete", asked.append)
    waits = served.app.state.ctx.waits
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=PATIENCE) as client:
        task_id = (await (await make_room(client, "mine")).submit())["id"]
    raw = await Raw.open(served)
    wait = f"GET /v1/tasks/{task_id} HTTP/1.1\r\nHost: treadle\r\nAuthorization: Bearer {served.token}\r\n"
    raw.writer.write(wait.encode() + b"Prefer: wait=60\r\n\r\n" + ASK)
    await until(lambda: waits.awaits(task_id))

    asked[-1].drop()

    await until(lambda: not waits.awaits(task_id), seconds=PATIENCE)
    raw.writer.close()


async def test_a_body_that_does_not_go_on_ends_in_time_and_a_slow_one_is_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a client whose network died in the middle of its body all was kept for ever."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1.0)
    body = json.dumps({"name": "slow"}).encode()
    head = f"POST /v1/workers HTTP/1.1\r\nHost: treadle\r\nAuthorization: Bearer {served.token}\r\n"
    silent, slow = [await Raw.open(served) for _ in range(2)]
    for one in (silent, slow):
        one.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())

    silent.writer.write(body[:1])
    slowly = asyncio.create_task(_drip(slow, body))
    answer = await silent.rest()

    assert answer == b""
    await slowly
    assert b"201 Created" in await slow.reader.readuntil(b"\r\n\r\n")
    slow.writer.close()


async def _drip(raw: Raw, body: bytes) -> None:
    """Send a byte whenever a tenth of the patience is over, for longer than all of it."""
    for i in range(len(body)):
        raw.writer.write(body[i : i + 1])
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.1, done.set_result, None)
        await done
