"""A page of `treadle watch --web` and its process: neither outlives the other, and their number is bounded."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import psutil
import pytest
from aiohttp import ClientError, ClientSession, ClientWebSocketResponse, WSCloseCode, WSMsgType
from aiohttp.web import AppRunner, TCPSite

from tests.chaos.processes import free_port
from tests.children import has_ended
from tests.waiting import until
from treadle_tui import page, web
from treadle_tui.web import WatchServer

DASHBOARD = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if MODE == "broken":
    sys.exit("Error: line 1 of tui.toml")
os.write(1, b"__GANGLION__\\n")
def draw(text):
    os.write(1, b"D" + len(text).to_bytes(4, "big") + text)
draw(b"pid:%d." % os.getpid())
while True:
    kind = sys.stdin.buffer.read(1)
    if not kind:
        sys.exit()
    said = sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(4), "big"))
    if said == b"flood":
        for _ in range(200):
            draw(b"x" * 65_536)
    if b"echo" in said:
        draw(said)
    if kind == b"M" and b"quit" in said and MODE != "stuck":
        sys.exit()
"""
"""Draws its process's id, what is typed with an echo in it, and a flood when a key asks for one; ends when it is told
to, unless it is stuck, and before it begins where it is broken."""


@asynccontextmanager
async def serving(mode: str = "", *, most_pages: int = 2) -> AsyncIterator[Callable[[], Any]]:
    """Serve such dashboards for the block, which is given what opens a page."""
    port = free_port()
    command = [sys.executable, "-c", DASHBOARD.replace("MODE", repr(mode))]
    server = WatchServer(command, host="127.0.0.1", port=port, most_pages=most_pages)
    runner = AppRunner(await server._make_app())
    await runner.setup()
    headers = {"Origin": f"http://127.0.0.1:{port}", "Cookie": f"treadle-watch-{port}={server.key}"}
    async with ClientSession(headers=headers) as browser:
        try:
            await TCPSite(runner, "127.0.0.1", port).start()
            yield lambda: browser.ws_connect(f"ws://127.0.0.1:{port}/ws?width=80&height=24")
        finally:
            await runner.cleanup()


async def drawn_by(socket: ClientWebSocketResponse) -> psutil.Process:
    """Return the process behind a page."""
    said = await socket.receive_bytes()
    return psutil.Process(int(said.removeprefix(b"pid:").removesuffix(b".")))


async def test_a_page_whose_dashboard_was_killed_is_closed() -> None:
    """It stood there, with all that was on it, as if it were live."""
    async with serving() as opened, opened() as socket:
        os.kill((await drawn_by(socket)).pid, signal.SIGKILL)

        assert (await socket.receive()).type == WSMsgType.CLOSE


@pytest.mark.parametrize(
    ("pasted", "comes"),
    [
        (r"echo \ud800 \ud83d\ude00", "echo ? \U0001f600"),
        (r"\u001b[200~echo \u001b[31mq\u001b[201~", "\x1b[200~echo [31mq\x1b[201~"),
    ],
    ids=["half a character", "an escape"],
)
async def test_whatever_is_pasted_reaches_the_dashboard_as_text(pasted: str, comes: str) -> None:
    """Half a character ended the page with a traceback, and the letters behind an escape were keys."""
    async with serving() as opened, opened() as socket:
        await drawn_by(socket)
        await socket.send_str(f'["stdin", "{pasted}"]')

        assert await socket.receive_bytes() == comes.encode()


async def test_what_a_page_never_says_is_passed_over() -> None:
    async with serving() as opened, opened() as socket:
        await drawn_by(socket)
        for said in ("[]", "0", '["stdin", 1]', '["resize", {}]', '["stdin", "echo"]'):
            await socket.send_str(said)

        assert await socket.receive_bytes() == b"echo"


async def test_a_message_that_is_too_long_closes_the_page_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as opened, opened() as socket:
        process = await drawn_by(socket)
        with suppress(ClientError, ConnectionError):
            await socket.send_str(f'["stdin", "{"x" * 5_000_000}"]')
        await until(lambda: has_ended(process))

    assert caplog.messages == []


async def test_a_ctrl_c_that_reaches_a_page_too_while_it_starts_does_not_end_it_with_a_traceback() -> None:
    async with serving() as opened, opened() as socket:
        os.kill((await drawn_by(socket)).pid, signal.SIGINT)
        await socket.send_str('["stdin", "echo"]')

        assert await socket.receive_bytes() == b"echo"


async def test_of_a_dashboard_that_cannot_start_its_own_words_are_told(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Before them stood "Application failed to start", also for each page that was closed while it started."""
    async with serving("broken") as opened, opened() as socket:
        assert (await socket.receive()).type == WSMsgType.CLOSE

    assert capfd.readouterr().err == "Error: line 1 of tui.toml\n"
    assert caplog.messages == []


async def test_a_dashboard_ends_with_its_page_also_in_the_middle_of_a_drawing(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody took what it drew then, so that it stayed until the last page was closed."""
    async with serving() as opened:
        async with opened() as socket:
            process = await drawn_by(socket)
            await socket.send_str('["stdin", "flood"]')
            await socket.receive()
            socket._conn.transport.abort()  # type: ignore[union-attr]

        await until(lambda: has_ended(process))
    assert caplog.messages == []


async def test_a_page_that_goes_before_its_socket_is_open_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that is reloaded in haste does."""
    monkeypatch.setattr(WatchServer, "_refusal", lambda _, request: request.transport.abort())
    async with serving() as opened:
        with pytest.raises(ClientError):
            await opened()
    assert caplog.messages == []


async def test_a_dashboard_that_does_not_end_with_its_page_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "GRACE_SECONDS", 0.01)
    async with serving("stuck") as opened:
        async with opened() as socket:
            process = await drawn_by(socket)

        await until(lambda: has_ended(process))


async def test_pages_that_are_open_are_closed_when_serving_ends() -> None:
    """Serving went on for 20 seconds after Ctrl-C, and its pages with it."""
    async with serving() as opened:
        process = await drawn_by(socket := await opened())
        ended = asyncio.ensure_future(socket.receive())

    assert (await ended).data == WSCloseCode.GOING_AWAY
    assert has_ended(process)


async def test_of_more_pages_than_there_may_be_one_says_so_and_a_closed_one_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each was a process of 70 MB, without an end."""
    async with serving(most_pages=1) as opened:
        async with opened() as first:
            await drawn_by(first)
            with monkeypatch.context() as patched:
                patched.setattr(web, "PATIENCE_SECONDS", 0)
                async with opened() as second:
                    assert b"1 pages with a dashboard are open here already" in await second.receive_bytes()

        # As a page that is reloaded: its old dashboard may take a moment to end.
        async with opened() as third:
            await drawn_by(third)
