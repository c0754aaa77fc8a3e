"""What the network's libraries throw by themselves is a broken connection, as what httpx throws is (N4)."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from httpx import AsyncBaseTransport, AsyncByteStream, Request, Response

from tests.worker.conftest import working_at
from tests.worker.jobs import double
from tests.worker.proxies import proxy_to
from treadle import Client
from treadle.errors import ConnectionFailed, ConnectionLost
from treadle.tasks.content import Content
from treadle.transport.http import HttpChannel
from treadle.transport.http_client import NetworkClient
from treadle.wire.artifacts import ArtifactItem
from treadle.worker.uploads import Uploader
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio

URL = "http://server.invalid"


def no_socket() -> AttributeError:
    """As anyio does when a connection that uvloop has closed is asked for the name of its peer."""
    return AttributeError("'NoneType' object has no attribute 'getpeername'", name="getpeername", obj=None)


THROWN: list[Callable[[], Exception]] = [
    no_socket,
    lambda: OSError(9, "Bad file descriptor"),
    lambda: ssl.SSLError(1, "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] decryption failed or bad record mac"),
    lambda: RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    lambda: ExceptionGroup("several addresses", [ConnectionResetError(), no_socket()]),
]
"""What has been seen to come out of httpx, of one age or another, or of what it is built of."""

thrown: pytest.MarkDecorator = pytest.mark.parametrize("make", THROWN, ids=lambda make: type(make()).__name__)


class Pieces(AsyncByteStream):
    """An answer that breaks after its first piece."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"a": '
        raise self._error


DONE = {"action": "cancel", "matched": 1, "changed": 1}


class Network(AsyncBaseTransport):
    """Throws an error, as often as it is told, and then answers; `where` it is thrown is the part of a request."""

    def __init__(self, error: Exception, *, where: str = "connect", times: int = 1) -> None:
        self._error = error
        self._where = where
        self._left = times
        self.met = 0

    async def handle_async_request(self, request: Request) -> Response:
        self.met += 1
        if self._left > 0:
            self._left -= 1
            if self._where != "connect":
                await _read(request)
            if self._where == "body":
                return Response(200, stream=Pieces(self._error))
            raise self._error
        await _read(request)
        return Response(200, json=DONE)


async def _read(request: Request) -> None:
    assert isinstance(request.stream, AsyncByteStream)
    async for _ in request.stream:
        pass


@thrown
async def test_a_connection_that_could_not_be_made_is_made_again_whoever_says_so_n4(
    make: Callable[[], Exception],
) -> None:
    """Also for what may not be sent twice: nothing was sent."""
    network = Network(make())
    channel = HttpChannel((URL,), None, patience=20, transport=network)

    answer = await channel.request("POST", "/v1/tasks/actions", {}, resend=False)

    assert answer == DONE
    assert network.met == 2


@pytest.mark.parametrize(
    "make", [*THROWN, lambda: httpx.DecodingError("incorrect header check")], ids=lambda make: type(make()).__name__
)
@pytest.mark.parametrize("where", ["answer", "body"])
async def test_a_connection_that_broke_later_is_lost_whoever_says_so_n4(
    make: Callable[[], Exception], where: str
) -> None:
    """What may be sent again is, and what may not isn't."""
    lost = HttpChannel((URL,), None, patience=20, transport=Network(make(), where=where))
    again = HttpChannel((URL,), None, patience=20, transport=Network(make(), where=where))

    with pytest.raises(ConnectionLost):
        await lost.request("POST", "/v1/tasks/actions", {}, resend=False)

    assert await again.request("POST", "/v1/tasks/actions", {}, resend=True) == DONE


@thrown
async def test_a_download_that_breaks_is_lost_whoever_says_so_n4(make: Callable[[], Exception]) -> None:
    channel = HttpChannel((URL,), None, transport=Network(make(), where="body"))

    with pytest.raises(ConnectionLost):
        async with channel.stream("/v1/artifact") as (answer, _):
            await answer.aread()


class Announced(Uploader):
    """An uploader whose uploads are announced already."""

    async def _announce(self, key: tuple[str, int], body: dict[str, Any]) -> Any:
        return {**body, "run_id": 0, "put_url": f"{URL}/there"}


class Stored(Network):
    """Keeps what it is given."""

    async def handle_async_request(self, request: Request) -> Response:
        await super().handle_async_request(request)
        item = ArtifactItem(name="a", run_id=0, content_type="text/plain", size=1, created_at=datetime.now(UTC))
        return Response(200, content=item.model_dump_json())


@thrown
async def test_an_upload_that_breaks_is_made_again_whoever_says_so_n4(make: Callable[[], Exception]) -> None:
    network = Stored(make(), where="answer")
    uploader = Announced((URL,), None, mounts={"all://": network})

    stored = await uploader.upload(("task", 0), Content(b"a", "a", "text/plain"))

    assert stored.name == "a"
    assert network.met == 2


async def test_an_upload_that_reaches_nobody_tells_what_says_where_uploads_go_g9() -> None:
    """A proxy that tells the server another address than its own, or stands before a path of its own."""

    class Nobody(AsyncBaseTransport):
        async def handle_async_request(self, request: Request) -> Response:
            raise httpx.ConnectError("All connection attempts failed", request=request)

    uploader = Announced((URL,), None, mounts={"all://": Nobody()}, patience=0)

    with pytest.raises(ConnectionLost, match=r"server\.invalid broke \(All con.*TREADLE_PUBLIC_URL"):
        await uploader.upload(("task", 0), Content(b"a", "a", "text/plain"))


async def test_a_worker_comes_up_where_a_connection_is_reset_before_it_was_looked_at_n4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What anyio makes of it: its connection has no socket any more, and can't be asked for anything."""
    connect = anyio.connect_tcp

    async def reset_once(*args: Any, **options: Any) -> Any:
        stream = await connect(*args, **options)
        await stream.aclose()
        monkeypatch.setattr("anyio.connect_tcp", look_again)
        monkeypatch.setattr(type(stream), "_raw_socket", None)
        return stream

    async def look_again(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        return await connect(*args, **options)

    monkeypatch.setattr("anyio.connect_tcp", reset_once)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(f"sqlite:///{tmp_path / 'treadle.db'}"))
        proxy = await stack.enter_async_context(proxy_to(server.url))
        proxy.refuses_sockets = True
        client = await stack.enter_async_context(Client(server.url, server.token))
        await stack.enter_async_context(working_at(proxy.url, server.token, double))

        assert await (await client.submit(double.bind(2))).result(timeout=30) == 4

    assert "a defect" not in caplog.text
    assert "getpeername" in caplog.text


class Refused(Exception):
    """What an upload's own check raises."""


async def test_what_the_content_of_a_request_raises_is_no_matter_of_the_network_n4() -> None:
    def refuse() -> None:
        raise Refused

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        refuse()

    async with NetworkClient(transport=Network(no_socket(), times=0)) as client:
        with pytest.raises(Refused):
            await client.put(URL, content=pieces())


async def test_a_closed_client_says_that_it_is_closed_n4() -> None:
    client = NetworkClient(transport=Network(no_socket(), times=0))
    await client.aclose()

    with pytest.raises(RuntimeError, match="closed"):
        await client.get(URL)


async def test_who_asks_over_connections_that_were_closed_is_told_so_at_once_however_patient_it_is() -> None:
    """A worker's reports are, when it has found its way back to the socket: they go again there."""

    class Breaking(AsyncBaseTransport):
        async def handle_async_request(self, request: Request) -> Response:
            await channel.close()
            raise httpx.ReadError("closed in the middle", request=request)

    channel = HttpChannel((URL,), None, patience=3600, transport=Breaking())

    with pytest.raises(ConnectionFailed, match="were closed"):
        await channel.request("POST", "/v1/x", {}, resend=True)
    with pytest.raises(ConnectionFailed, match="were closed"):
        await channel.request("GET", "/v1/x")


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_who_asks_while_the_connections_are_closed_is_told_so_though_its_own_was_not_made_yet(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a connection that was made after that nobody knew, and it stayed open."""
    connecting = asyncio.Event()
    left: list[str] = []

    class Silent(AsyncBaseTransport):
        async def handle_async_request(self, request: Request) -> Response:
            connecting.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                left.append(request.method)
            raise AssertionError

    channel = HttpChannel((URL,), None, patience=3600, transport=Silent())
    asking = asyncio.create_task(channel.request(method, "/v1/x"))
    await connecting.wait()

    async with asyncio.timeout(30):
        await channel.close()
        assert left == [method]
        await channel.close()
        with pytest.raises(ConnectionFailed, match="were closed"):
            await asking
    assert "trying again" not in caplog.text


async def test_a_compressed_answer_is_refused_before_it_is_unpacked() -> None:
    """A megabyte from whoever answers became a gigabyte, and half a minute in which nothing else was done."""
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(request.headers["Accept-Encoding"])
        return Response(200, headers={"Content-Encoding": "gzip"}, stream=Unread())

    class Unread(AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            raise AssertionError("it is read")
            yield b""

    channel = HttpChannel((URL,), "any", transport=httpx.MockTransport(answer))
    with pytest.raises(ConnectionFailed, match="the answer is compressed, as gzip, although the request forbids it"):
        await channel.request("GET", "/v1/stats")
    await channel.close()

    assert asked == ["identity"]
