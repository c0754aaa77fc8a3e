"""A server that stops does not wait for ever: what is not answered by then is told so, and is no error of ours."""

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.chaos.processes import Process, ServerProcess, stopped_at_the_end
from tests.waiting import until
from treadle_server.app import create_app
from treadle_server.serving import server
from treadle_server.settings import Settings
from treadle_server.store.store import SqlStore
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio

PATIENCE = 30


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GRACE_SECONDS", 0.05)


def watched(served: Served, instead: Callable[[ASGIApp], ASGIApp] = lambda app: app) -> asyncio.Event:
    """Return what is set as soon as the server is at a request; it is answered by `instead` of the application."""
    begun, found = asyncio.Event(), served.app.middleware_stack
    assert found is not None
    answer = instead(found)

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            begun.set()
        await answer(scope, receive, send)

    served.app.middleware_stack = noted
    return begun


def never_ending(*messages: dict[str, object]) -> Callable[[ASGIApp], ASGIApp]:
    """Return an application that says so much and then nothing more."""

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        await asyncio.get_running_loop().create_future()

    return lambda _: answer


@asynccontextmanager
async def asked(served: Served, body: bytes = b"", length: int = 0) -> AsyncIterator[asyncio.StreamReader]:
    """Send a request, or the beginning of one, and give what its answer is read from."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rsplit(":", 1)[1]))
    head = f"host: x\r\nauthorization: Bearer {served.token}\r\ncontent-length: {length}"
    writer.write(f"POST /v1/rooms/lab/tasks HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
    try:
        yield reader
    finally:
        writer.close()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR or one.exc_info]


async def test_a_request_that_is_not_done_in_time_is_told_that_the_server_stops(caplog) -> None:
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        async with serve() as served:
            begun = watched(served)
            reader = await stack.enter_async_context(asked(served, b'{"tasks', 1000))
            await begun.wait()
        answer = await reader.read()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"503"
    assert b"retry-after: 1" in head.lower()
    assert "may or may not have been done" in json.loads(body)["detail"]
    assert errors(caplog) == []


async def test_an_answer_that_is_not_complete_in_time_is_broken_off(caplog) -> None:
    start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]}
    part = {"type": "http.response.body", "body": b"12345", "more_body": True}
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        async with serve() as served:
            begun = watched(served, never_ending(start, part))
            reader = await stack.enter_async_context(asked(served))
            await begun.wait()
            await reader.readuntil(b"12345")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)

    assert errors(caplog) == []


async def test_a_session_that_does_not_end_in_time_is_ended(caplog) -> None:
    async with asyncio.timeout(20):
        async with serve() as served:
            begun = watched(served, never_ending({"type": "websocket.accept"}))
            connection = await connect(served.url.replace("http", "ws", 1) + "/v1/session")
            await begun.wait()
        with pytest.raises(ConnectionClosed):
            await connection.recv()

    assert errors(caplog) == []


async def test_a_start_that_is_cancelled_ends_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a Ctrl-C that comes before the server heeds signals: asyncio cancels what the command waits for."""
    settings = Settings(data_dir=tmp_path, port=0)
    serving_app = server.Server(create_app(settings), settings)
    with contextlib.closing(server.listen("127.0.0.1", 0)) as listener:
        serving = asyncio.ensure_future(serving_app.serve([listener]))
        starting = asyncio.ensure_future(serving_app.until_started(serving))
        await asyncio.sleep(0)

        starting.cancel()
        await asyncio.wait({starting})

        is_done = serving.done()
        serving.cancel()
        await asyncio.wait({serving})
    assert is_done
    assert "Traceback" not in caplog.text


async def test_a_second_signal_ends_a_server_that_waits_for_a_request_without_a_traceback(tmp_path: Path) -> None:
    process = ServerProcess(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}")
    await asyncio.to_thread(process.start)
    with stopped_at_the_end(process):
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        head = f"host: x\r\nauthorization: Bearer {process.token}\r\ncontent-length: 1000\r\nexpect: 100-continue"
        writer.write(f"POST /v1/rooms/lab/tasks HTTP/1.1\r\n{head}\r\n\r\n".encode())
        async with asyncio.timeout(30):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            process.signal(signal.SIGTERM)
            await until(lambda: listens(process.port), lambda is_open: not is_open, seconds=30)

            process.signal(signal.SIGINT)

            assert await process.ended() == 0
        writer.close()

    assert "Traceback" not in process.log.read_text()


async def test_a_server_whose_terminal_is_closed_ends_as_by_any_other_signal(tmp_path: Path) -> None:
    process = ServerProcess(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}")
    await asyncio.to_thread(process.start)
    with stopped_at_the_end(process):
        process.signal(signal.SIGHUP)

        async with asyncio.timeout(PATIENCE):
            assert await process.ended() == 0
    assert not (tmp_path / "treadle.db-wal").exists(), "what is left by one that was killed"


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    return True


async def test_a_server_whose_application_does_not_end_leaves_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a database that takes what it is asked and answers nothing."""
    monkeypatch.setattr(server, "ENDING_SECONDS", 0.1)
    answers, closed, close = asyncio.Event(), asyncio.Event(), SqlStore.close

    async def closing(store: SqlStore) -> None:
        await answers.wait()
        await close(store)
        closed.set()

    monkeypatch.setattr(SqlStore, "close", closing)
    async with asyncio.timeout(PATIENCE), serve(data_dir=tmp_path):
        pass

    assert not closed.is_set()
    answers.set()
    async with asyncio.timeout(PATIENCE):
        await closed.wait()


FAILING = """
from treadle.cli import main
from treadle_server.services.poller import Poller
from treadle_server.services import base

async def turn(poller):
    raise MemoryError

def failed(health, error):
    raise error

Poller.turn, base._failed = turn, failed
main()
"""
"""A server that has no memory left, not even to say so."""


async def test_a_server_a_part_of_which_failed_ends_so_that_it_is_started_again(tmp_path: Path) -> None:
    """It went on without, and looked alive to who watches over it: all that it was asked was answered by an error."""
    process = ServerProcess(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}")
    process.run_from(FAILING)
    Process.start(process)
    try:
        async with asyncio.timeout(PATIENCE):
            code = await process.ended()
    finally:
        if not process.has_ended:
            process.kill()

    assert code == 1
    assert "Error: a part of the server failed" in process.log.read_text()
    assert "MemoryError" in process.log.read_text()
