"""`treadle watch --web`: served by textual-serve, to whoever was given the key, from this machine alone."""

import asyncio
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.chaos.processes import free_port
from tests.waiting import SECONDS
from treadle_tui.cli import watch
from treadle_tui.launch import LaunchOptions, arguments
from treadle_tui.web import TEMPLATES, PublicAddress, WatchServer, command_of, serve_web


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A dashboard that is served, on a server that nobody answers at."""
    port = free_port()
    command = [sys.executable, "-c", "from treadle.cli import main; main()", "watch", "--web", "--port", str(port)]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    options = ["--url", "http://127.0.0.1:9", "--read-only", "some 'quoted' text; $(touch /tmp/never)"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=environment) as serving:
        try:
            assert serving.stdout is not None
            line = serving.stdout.readline()
            yield line.removeprefix("The dashboard is at ").strip()
        finally:
            serving.terminate()
            assert serving.wait(SECONDS) == 0


@pytest.fixture
async def browser(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """Someone who opened the address that was printed."""
    base = address.partition("?")[0]
    async with httpx.AsyncClient(base_url=base, follow_redirects=True) as client:
        (await client.get(address)).raise_for_status()
        yield client


async def test_the_page_and_all_that_it_loads_come_from_here(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/")
    loaded = re.findall(r'(?:src|href)="([^"]+)"|url\("([^"]+)"\)', page.text)
    paths = [one or other for one, other in loaded]

    assert paths
    assert [path for path in paths if "//" in path] == []
    for path in paths:
        assert (await browser.get(path)).status_code == 200, path
    assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_the_dashboard_is_drawn_and_its_keys_arrive(browser: httpx.AsyncClient) -> None:
    base = str(browser.base_url).rstrip("/")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())

    async with connect(
        f"ws{base.removeprefix('http')}/ws?width=100&height=30",
        origin=base,
        additional_headers={"Cookie": cookie},  # type: ignore[arg-type]
    ) as page:
        await read_until(page, "No server")
        await page.send('["stdin", "?"]')
        await read_until(page, "esc close")
        await page.send('["stdin", "q"]')
        await page.send('["stdin", "q"]')
        async with asyncio.timeout(60):
            await page.wait_closed()


async def read_until(page: object, wanted: str) -> None:
    seen = ""
    async with asyncio.timeout(40):
        while wanted not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen):
            message = await page.recv()  # type: ignore[attr-defined]
            seen += message.decode(errors="replace") if isinstance(message, bytes) else message


async def test_without_the_key_nobody_is_let_in(address: str) -> None:
    base = address.partition("/?")[0]
    async with httpx.AsyncClient(base_url=base) as stranger:
        for path in ("/", "/static/js/textual.js", "/?key=wrong", "/download/x"):
            assert (await stranger.get(path)).status_code == 403, path
    with pytest.raises(InvalidStatus, match="403"):
        await connect(f"ws{base.removeprefix('http')}/ws", origin=base).__aenter__()  # type: ignore[arg-type]


async def test_a_stranger_whose_headers_are_no_text_or_no_origin_is_not_let_in_either(address: str) -> None:
    """Each was answered 500, and left a traceback in the log."""
    base = address.partition("/?")[0]
    cookie = f"treadle-watch-{base.rpartition(':')[2]}=".encode() + b"\xff"
    async with httpx.AsyncClient(base_url=base) as stranger:
        for path, headers in (("/", {b"Cookie": cookie}), ("/ws", {b"Origin": b"http://[::1"})):
            assert (await stranger.get(path, headers=headers)).status_code == 403, path


async def test_another_page_cannot_open_the_socket_even_with_the_cookie(browser: httpx.AsyncClient) -> None:
    base = str(browser.base_url).rstrip("/")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())

    for origin in ("http://evil.example", None):
        with pytest.raises(InvalidStatus, match="403"):
            await connect(
                f"ws{base.removeprefix('http')}/ws",
                origin=origin,
                additional_headers={"Cookie": cookie},  # type: ignore[arg-type]
            ).__aenter__()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "queue.example"])
def test_an_address_that_others_reach_is_refused_and_the_reason_given(host: str) -> None:
    result = CliRunner().invoke(watch, ["--web", "--host", host, "--url", "http://127.0.0.1:9"])

    assert result.exit_code == 2
    assert "acts on the queue with your token" in result.output
    with pytest.raises(PublicAddress, match="--public"):
        serve_web([], host=host, port=1, public=False, token=None)


def test_where_it_is_is_said_only_when_it_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        result = CliRunner().invoke(watch, ["--web", "--port", str(port), "--url", "http://127.0.0.1:9"])

    assert result.exit_code == 1
    assert re.fullmatch(rf"Error: can't serve on 127\.0\.0\.1:{port}: .*already in use\n", result.output)


def test_words_with_quotes_and_dollars_reach_the_dashboard_as_they_are() -> None:
    options = LaunchOptions(wanted='it\'s $(rm -rf /) "x"', url="http://h", read_only=True, room="a b", token="secret")
    server = WatchServer(command_of(arguments(options)), host="127.0.0.1", port=1)

    words = shlex.split(server.command)

    assert words[-2:] == ["--", 'it\'s $(rm -rf /) "x"']
    assert {"--url=http://h", "--room=a b", "--read-only"} <= set(words)
    assert "secret" not in server.command


def test_the_token_goes_by_the_environment_where_other_users_cannot_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_TOKEN", "another")
    served: list[str] = []
    monkeypatch.setattr(WatchServer, "serve", lambda _: served.append(os.environ["TREADLE_TOKEN"]))

    serve_web(["--url=http://h"], host="127.0.0.1", port=1, public=False, token="secret")

    assert served == ["secret"]


def test_each_start_has_a_key_of_its_own() -> None:
    keys = {WatchServer(["x"], host="127.0.0.1", port=1).key for _ in range(10)}

    assert len(keys) == 10
    assert min(len(key) for key in keys) >= 20


def test_the_page_names_no_other_server() -> None:
    assert "//" not in re.sub(r"<!--.*?-->|// .*", "", (TEMPLATES / "app_index.html").read_text())
