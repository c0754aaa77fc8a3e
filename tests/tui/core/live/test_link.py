"""What the feed is told by a link to a real server."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
import websockets
from websockets.asyncio.server import ServerConnection

from tests.waiting import until
from treadle.errors import ConnectionFailed, ProtocolMismatch, TreadleError, error_for, problem_named
from treadle.transport import dialing
from treadle.transport.bearer import Bearer
from treadle_tui.core.live.feed import Event, Lost
from treadle_tui.core.live.link import RETRY_SECONDS, SessionLink


@pytest.mark.parametrize(
    "ended", [error_for(problem_named("unauthorized", "the token was revoked")), ProtocolMismatch("it speaks 9")]
)
async def test_7_a_request_that_is_under_way_when_the_session_is_refused_fails_as_one_without_a_connection(
    ended: TreadleError,
) -> None:
    link = SessionLink(("http://127.0.0.1:1",), Bearer(everywhere=lambda: "tdl_x"))

    async def call(*_: object, **__: object) -> dict[str, object]:
        raise ended

    link._session = SimpleNamespace(is_connected=True, call=call)  # type: ignore[assignment]

    with pytest.raises(ConnectionFailed, match=str(ended)[-9:]):
        await link.request("ping")


async def told_of(server: socket.socket) -> Lost:
    """What the feed is told first of a server."""
    told: asyncio.Queue[Event] = asyncio.Queue()
    link = SessionLink((f"http://127.0.0.1:{server.getsockname()[1]}",), Bearer(everywhere=lambda: "tdl_x"))
    running = asyncio.create_task(link.run(told.put_nowait))
    try:
        lost = await told.get()
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert isinstance(lost, Lost)
    return lost


async def test_7_who_takes_a_connection_and_says_nothing_has_refused_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "OPENING", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        lost = await told_of(stopped)

    assert "did not open a websocket within 0.2 s" in lost.detail
    assert not lost.refused


async def test_7_who_answers_and_opens_no_websocket_has_refused_it() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        lost = await told_of(proxy.sockets[0])

    assert lost.refused


async def test_7_a_frame_that_is_still_coming_is_counted_as_received() -> None:
    served: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def serve(ws: ServerConnection) -> None:
        await ws.recv()
        await ws.send(b'{"items": [{"re": 0, "ok": {}}]}', text=True)
        await served.put(ws)
        await ws.wait_closed()

    opened = asyncio.Event()
    async with websockets.serve(serve, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = SessionLink((f"http://127.0.0.1:{port}",), Bearer(everywhere=lambda: "tdl_x"))
        running = asyncio.create_task(link.run(lambda _: opened.set()))
        try:
            await opened.wait()
            before = link.received
            # The head of a frame of 65,535 bytes, and the first ten.
            (await served.get()).transport.write(b"\x81\x7e\xff\xff" + bytes(10))
            await until(lambda: link.received, lambda received: received == before + 14)
        finally:
            running.cancel()
            await asyncio.wait({running})


async def test_7_a_server_that_says_the_same_nonsense_each_time_is_asked_anew_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each connection was given up at once, and the next one made without a pause."""
    pauses: asyncio.Queue[float] = asyncio.Queue()
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.put_nowait(seconds)
        await sleep(0)

    async def serve(ws: ServerConnection) -> None:
        await ws.recv()
        await ws.send(b'{"items": [{"re": 0, "ok": {}}]}', text=True)
        await ws.wait_closed()

    async with websockets.serve(serve, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = SessionLink((f"http://127.0.0.1:{port}",), Bearer(everywhere=lambda: "tdl_x"))
        monkeypatch.setattr(asyncio, "sleep", pause)
        running = asyncio.create_task(link.run(lambda _: link.reset()))
        try:
            async with asyncio.timeout(20):
                while await pauses.get() != RETRY_SECONDS:
                    continue
        finally:
            running.cancel()
            await asyncio.wait({running})
