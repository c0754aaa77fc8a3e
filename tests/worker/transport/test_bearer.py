"""N4: the token that a local server wrote leaves this machine never, by whatever way a request goes."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from treadle import Client
from treadle.cli.group import treadle
from treadle.errors import ConnectionFailed, SocketRefused, Unauthorized
from treadle.settings import Settings
from treadle.transport.bearer import Way, bearer_of
from treadle.transport.http import HttpChannel
from treadle.transport.session import Session
from treadle.worker.fallback_heartbeat import FallbackHeartbeat
from treadle.worker.lease import Leases

SECRET = "the-superusers-token"
REFUSAL = json.dumps({"type": "/v1/problems/unauthorized", "title": "Unauthorized", "status": 401, "detail": "no"})


class Ear:
    """A server that keeps the head of each request, and answers all of them alike."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.port = 0
        self.answer = f"401 Unauthorized\r\nContent-Length: {len(REFUSAL)}\r\n\r\n{REFUSAL}"

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Who is gone before its head is whole has asked nothing, as a session that is closed while it dials.
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(f"HTTP/1.1 {self.answer}".encode())
            await writer.drain()
        writer.close()

    @property
    def secrets(self) -> list[bool]:
        return [SECRET in head for head in self.heads]


@asynccontextmanager
async def listening() -> AsyncIterator[Ear]:
    ear = Ear()
    async with await asyncio.start_server(ear.hear, "127.0.0.1", 0) as server:
        ear.port = server.sockets[0].getsockname()[1]
        yield ear


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("TREADLE_TOKEN", raising=False)
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path))
    (tmp_path / "token").write_text(f"{SECRET}\n")
    return Settings()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Iterator[list[str]]]], None]:
    """Has names lead, lookup by lookup, where the test says."""
    real = socket.getaddrinfo

    def install(table: dict[str, Iterator[list[str]]]) -> None:
        def lookup(host: Any, port: Any, *more: Any, **options: Any) -> Any:
            name = host.decode() if isinstance(host, bytes) else host
            if name not in table:
                return real(host, port, *more, **options)
            return [entry for address in next(table[name]) for entry in real(address, port, *more, **options)]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)

    return install


def then(*answers: list[str]) -> Iterator[list[str]]:
    """The answers in turn; the last one for ever."""
    yield from answers
    while True:
        yield answers[-1]


@pytest.mark.parametrize("first", [["192.0.2.1"], ["127.0.0.1", "192.0.2.1"]])
async def test_a_name_that_leads_elsewhere_is_not_shown_the_local_token_by_socket_or_http(
    first: list[str], settings: Settings, names: Callable[..., None]
) -> None:
    """The name comes back to this machine when it is connected to: that is how the request is seen here."""
    async with listening() as ear:
        names({"elsewhere.test": then(first, ["127.0.0.1"], first, ["127.0.0.1"])})
        url = f"http://elsewhere.test:{ear.port}"

        async with Client(url, settings=settings, patience=0) as client:
            with pytest.raises(Unauthorized, match=r"192\.0\.2\.1 is not a loopback address.*set TREADLE_TOKEN"):
                await client.ping()
            with pytest.raises(Unauthorized, match="set TREADLE_TOKEN"):
                await client.jobs()

        assert ear.secrets == [False, False]


async def test_who_has_no_token_is_told_where_it_was_looked_for_by_socket_and_http(settings: Settings) -> None:
    settings.token_path.unlink()
    async with listening() as ear, Client(f"http://127.0.0.1:{ear.port}", settings=settings) as client:
        for ask in (client.ping, client.whoami):
            with pytest.raises(Unauthorized, match=f"there is no {settings.token_path}: set TREADLE_TOKEN to one of"):
                await ask()


async def test_a_name_that_led_here_and_then_elsewhere_gets_the_token_nowhere_but_here(
    settings: Settings, names: Callable[..., None]
) -> None:
    async with listening() as ear:
        names({"rebound.test": then(["127.0.0.1"], ["192.0.2.1"])})
        url = f"http://rebound.test:{ear.port}"
        session = Session((url,), bearer_of(None, settings), on_push=lambda _: None)

        with pytest.raises(Unauthorized):
            await session._dial(url)
        names({"rebound.test": then(["127.0.0.1"], ["192.0.2.1"])})
        channel = HttpChannel((url,), bearer_of(None, settings))
        with pytest.raises(Unauthorized):
            await channel.request("GET", "/v1/jobs")
        await channel.close()

        assert ear.secrets == [True, True]
        assert all(f"Host: rebound.test:{ear.port}\r\n" in head for head in ear.heads)


async def test_each_address_of_a_list_is_looked_at_by_itself(settings: Settings) -> None:
    bearer = bearer_of(None, settings)

    assert await bearer.ways("http://[::1]:7420") == [Way("http://[::1]:7420", SECRET, "::1")]
    assert await bearer.ways("http://127.8.9.10") == [Way("http://127.8.9.10", SECRET, "127.8.9.10")]
    for url in ("http://192.0.2.7:7420", "http://0.0.0.0:7420", "https://[fe80::1]", "http://[::ffff:192.0.2.7]"):
        [way] = await bearer.ways(url)
        assert (way.token, way.address) == (None, None), url
        assert str(settings.token_path) in (way.withheld or "")


async def test_a_proxy_of_the_environment_gets_no_request_to_this_machine_though_the_list_has_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.transport.http.shuffled", list)
    async with listening() as proxy, listening() as here:
        here.answer = "204 No Content\r\nContent-Length: 0\r\n\r\n"
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        channel = HttpChannel((f"http://127.0.0.1:{here.port}", "http://192.0.2.1"), bearer_of(None, settings))

        await channel.request("GET", "/v1/jobs")
        channel._urls.reverse()
        with pytest.raises(Unauthorized, match="set TREADLE_TOKEN"):
            await channel.request("GET", "/v1/jobs")
        await channel.close()

        assert (proxy.secrets, here.secrets) == ([False], [True])


async def test_a_redirect_takes_no_token_anywhere(settings: Settings) -> None:
    async with AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(listening()) for _ in range(2)]
        here.answer = f"307 Temporary Redirect\r\nLocation: http://localhost:{there.port}/\r\nContent-Length: 0\r\n\r\n"
        url = f"http://127.0.0.1:{here.port}"

        for bearer in (bearer_of(None, settings), bearer_of("set-by-hand")):
            with pytest.raises(SocketRefused, match="307"):
                await Session((url,), bearer, on_push=lambda _: None)._dial(url)

        assert there.heads == []


async def test_a_name_that_cannot_be_resolved_is_a_server_that_is_not_reached(
    settings: Settings, names: Callable[..., None]
) -> None:
    def none() -> Iterator[list[str]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        yield []

    names({"nowhere.test": none()})

    with pytest.raises(ConnectionFailed, match=r"nowhere\.test \(Name or service not known\)"):
        await bearer_of(None, settings).ways("http://nowhere.test")


async def test_the_heartbeat_beside_the_loop_goes_by_the_same_rule(
    settings: Settings, names: Callable[..., None]
) -> None:
    async with listening() as ear:
        names({"elsewhere.test": then(["192.0.2.1"], ["127.0.0.1"]), "here.test": then(["127.0.0.1"], ["192.0.2.1"])})
        for host in ("elsewhere.test", "here.test"):
            fallback = FallbackHeartbeat(
                Leases(lambda _: asyncio.sleep(0, {}), lambda: None),
                (f"http://{host}:{ear.port}",),
                bearer_of(None, settings),
                worker_id=lambda: "w",
                apply=lambda *_: None,
            )
            await asyncio.to_thread(fallback._beat)
            for way in list(fallback._connections):
                fallback._disconnect(way)

        assert ear.secrets == [False, True]


def test_the_command_says_what_to_set(
    settings: Settings, names: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command, in its own loop, against a server that wants a token."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        names({"elsewhere.test": then(["192.0.2.1"], ["127.0.0.1"])})
        monkeypatch.setenv("TREADLE_URL", f"http://elsewhere.test:{server.getsockname()[1]}")

        def refuse() -> bytes:
            connection, _ = server.accept()
            with connection:
                head = connection.recv(65_536)
                connection.sendall(
                    f"HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: {len(REFUSAL)}\r\n\r\n{REFUSAL}".encode()
                )
            return head

        with ThreadPoolExecutor(1) as thread:
            heard = thread.submit(refuse)
            result = CliRunner().invoke(treadle, ["jobs"])

        assert SECRET.encode() not in heard.result()
        assert result.exit_code == 1
        assert "set TREADLE_TOKEN" in result.output


def test_a_way_does_not_show_its_token_to_who_reports_an_error_with_the_variables_of_each_frame() -> None:
    assert SECRET not in repr([Way("http://127.0.0.1:1", SECRET)])


@pytest.mark.inside
async def test_the_dashboard_goes_by_the_same_rule(settings: Settings) -> None:
    from treadle_tui.core.setup.config import Server
    from treadle_tui.launch import LaunchOptions, bearer_for

    server = Server("", ("http://127.0.0.1:1", "http://192.0.2.1:1"))

    shown = [(await bearer_for(server, LaunchOptions()).ways(url))[0].token for url in server.urls]

    assert shown == [SECRET, None]
