"""Proxies and authorities of the environment: the socket and plain HTTP go by the same ones."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from tests.worker.proxies import pump
from tests.worker.transport.test_bearer import listening
from treadle import Client
from treadle.errors import ConnectionFailed, ConnectionLost
from treadle.settings import InvalidSetting
from treadle.transport.environment import proxy_of
from treadle_server.testing import serve

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "socks_proxy", "ws_proxy", "wss_proxy")


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class ForwardProxy:
    """A proxy of a network: it alone knows where the names lead, which is to one server."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self.asked: list[str] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, place, _ = head.split(b" ", 2)
        self.asked.append(f"{method.decode()} {place.decode()}")
        from_server, to_server = await asyncio.open_connection(self._target.hostname, self._target.port)
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            path = place.split(b"/", 3)[3]
            to_server.write(head.replace(place, b"/" + path, 1))
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, to_server))
            group.create_task(pump(from_server, writer))


@asynccontextmanager
async def proxy_before(url: str) -> AsyncIterator[ForwardProxy]:
    proxy = ForwardProxy(url)
    async with await asyncio.start_server(proxy.handle, "127.0.0.1", 0) as server:
        proxy.port = server.sockets[0].getsockname()[1]
        yield proxy


DEAD = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "variables",
    [
        {"HTTP_PROXY": "http://127.0.0.1:{}"},
        {"http_proxy": "127.0.0.1:{}"},
        {"ALL_PROXY": "http://127.0.0.1:{}"},
        {"HTTP_PROXY": "http://someone@127.0.0.1:{}"},
        {"HTTP_PROXY": "http://127.0.0.1:{}", "HTTPS_PROXY": DEAD, "ALL_PROXY": DEAD},
        {"HTTP_PROXY": "http://127.0.0.1:{}", "NO_PROXY": "another.test, 10.0.0.1"},
    ],
    ids=" ".join,
)
async def test_the_socket_goes_through_the_proxy_that_http_goes_through(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    async with serve() as served, proxy_before(served.url) as proxy:
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(proxy.port))

        async with Client("http://queue.test:7420", token=served.token, patience=0) as client:
            await client.ping()
            is_plain = client.is_plain
            await client.whoami()

    assert not is_plain
    assert proxy.asked == ["CONNECT queue.test:7420", "GET http://queue.test:7420/v1/whoami"]


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("http://queue.test", {"HTTPS_PROXY": DEAD}, None),
        ("https://queue.test", {"HTTPS_PROXY": DEAD}, DEAD),
        ("https://queue.test", {"HTTP_PROXY": DEAD}, None),
        ("https://queue.test", {"HTTP_PROXY": "http://other:1", "ALL_PROXY": DEAD}, DEAD),
        ("https://queue.test", {"ALL_PROXY": "me:secret@proxy:3128"}, "http://me:secret@proxy:3128"),
        ("http://queue.test", {"SOCKS_PROXY": DEAD, "WS_PROXY": DEAD}, None),
        ("http://127.0.0.1:7420", {"ALL_PROXY": DEAD}, None),
        ("http://[::1]", {"ALL_PROXY": DEAD}, None),
        ("http://localhost", {"ALL_PROXY": DEAD}, None),
        ("http://queue.test:7420", {"ALL_PROXY": DEAD, "NO_PROXY": "test"}, None),
        ("http://queue.test:7420", {"ALL_PROXY": DEAD, "NO_PROXY": ".test"}, None),
        ("http://queue.test:7420", {"ALL_PROXY": DEAD, "NO_PROXY": "queue.test:7420"}, None),
        ("http://queue.test:7420", {"ALL_PROXY": DEAD, "NO_PROXY": "queue.test:7421"}, DEAD),
        ("http://queue.test", {"ALL_PROXY": DEAD, "NO_PROXY": "*"}, None),
        ("http://10.1.2.3", {"ALL_PROXY": DEAD, "NO_PROXY": "10.1.2.3"}, None),
        ("http://queue.test", {"ALL_PROXY": ""}, None),
    ],
)
def test_a_proxy_is_the_one_of_the_urls_scheme_unless_the_host_is_to_be_reached_without(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], proxy: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert proxy_of(url) == proxy


async def test_a_proxy_that_is_not_there_is_named_where_no_server_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what stands before its host: that may be a password."""
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@127.0.0.1:1")

    async with Client("http://queue.test:7420", token="any", patience=0) as client:
        for call in (client.ping, client.whoami):
            with pytest.raises(ConnectionFailed, match=r"through the proxy 127\.0\.0\.1:1: NO_PROXY") as failed:
                await call()
            assert "secret" not in str(failed.value)


async def test_a_proxy_that_answers_in_the_servers_place_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as stranger:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{stranger.port}")
        place = rf"http://queue\.test:7420.* through the proxy 127\.0\.0\.1:{stranger.port} "

        async with Client("http://queue.test:7420", token="any", patience=0) as client:
            stranger.answer = "407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
            with pytest.raises(ConnectionFailed, match=f"{place}answers 407"):
                await client.whoami()
            stranger.answer = "200 OK\r\nContent-Length: 9\r\n\r\n"
            with pytest.raises(ConnectionLost, match=f"{place}broke before"):
                await client.create_token("someone")


@pytest.mark.parametrize("proxy", ["gopher://127.0.0.1:1", "http://[", "http://127.0.0.1:none", "http://", "://"])
async def test_a_proxy_that_can_not_be_one_is_a_setting_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    """It was a traceback of the library's."""
    monkeypatch.setenv("HTTP_PROXY", proxy)

    async with Client("http://queue.test:7420", token="any", patience=0) as client:
        with pytest.raises(InvalidSetting, match=r"names a proxy for queue\.test that can't be used") as failed:
            await client.whoami()
        assert str(failed.value).count("the environment") == 1


async def test_the_socket_and_http_trust_the_systems_authorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An authority of one's own stands among the system's: one trusted those, the other the public ones alone."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "cert.pem")
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda context, *_: authority.configure_trust(context))
    async with serve(data_dir=tmp_path / "data", tls_cert=tmp_path / "cert.pem") as served:
        url = served.url.replace("127.0.0.1", "localhost")

        async with Client(url, token=served.token, patience=0) as client:
            await client.ping()
            is_plain = client.is_plain
            await client.whoami()

    assert not is_plain


async def test_authorities_that_can_not_be_read_are_told_of_the_socket_as_of_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))

    async with Client("https://localhost:1", token="any", patience=0) as client:
        for call in (client.ping, client.whoami):
            with pytest.raises(ConnectionFailed, match=r"SSL_CERT_DIR \(\S+none.pem\) can't be read"):
                await call()
