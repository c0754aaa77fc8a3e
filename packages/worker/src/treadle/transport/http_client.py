"""HTTP connections that report every network failure as an httpx error, whichever library raised it.

httpx maps the errors that it knows. Others that pass through are an AttributeError of anyio's when a peer resets a
connection right after accepting it and uvloop has already closed the socket, an `ssl.SSLError` while reading, a
RuntimeError of uvloop's, and an `anyio.ClosedResourceError` during a handshake. A network failure is not a bug in the
code that uses the network, so all of them are converted here.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from treadle.errors import TreadleError
from treadle.transport.environment import authorities, proxy_of, unusable

_TOLD = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
"""The errors that httpx raises itself; a `StreamError` is about the calling code."""


class NetworkClient(httpx.AsyncClient):
    """An `httpx.AsyncClient` that raises an `httpx.RequestError` for anything that happens to a request on its way.

    That is a `ConnectError` if no part of the request can have arrived, because its content, which httpx reads once the
    headers are written, was not read yet; otherwise a `ReadError`. Errors raised by the content itself are passed on.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(headers={"Accept-Encoding": "identity"}, event_hooks={"response": [_refuse_coded]}, **options)
        self._under_way: set[asyncio.Timeout] = set()
        self._has_ended = asyncio.Event()

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request; raises RuntimeError when the client is closed, as httpx does."""
        if self.is_closed:
            return await super().send(request, **options)
        assert isinstance(request.stream, httpx.AsyncByteStream)
        request.stream = content = _RequestContent(request.stream)
        try:
            response = await self._send(request, **options)
        except Exception as error:
            if content.error is not None:
                raise content.error from None
            if isinstance(error, (*_TOLD, TreadleError)):
                raise
            kind = httpx.ReadError if content.is_begun else httpx.ConnectError
            raise kind(_sentence(error), request=request) from error
        if not response.is_closed:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _AnswerContent(response.stream)
        return response

    async def aclose(self) -> None:
        """Close all connections, and end the requests under way, one of which may be about to open another."""
        for sending in self._under_way:
            if not sending.expired():
                sending.reschedule(0)
        await super().aclose()
        while self._under_way:
            self._has_ended.clear()
            await self._has_ended.wait()

    async def _send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        try:
            async with asyncio.timeout(None) as sending:
                self._under_way.add(sending)
                return await super().send(request, **options)
        except TimeoutError:
            if not sending.expired():
                raise
            raise ConnectionAbortedError("the connections were closed") from None
        finally:
            self._under_way.discard(sending)
            self._has_ended.set()


def network_client(*, transport: httpx.AsyncBaseTransport | None = None, **options: Any) -> NetworkClient:
    """Return connections to servers, using the proxies and authorities that the environment names.

    A request raises `ConnectionFailed` while the authorities can't be read, and `InvalidSetting` for an unusable proxy.
    `transport` replaces the network in tests.
    """
    return NetworkClient(trust_env=False, transport=Network() if transport is None else transport, **options)


class Network(httpx.AsyncBaseTransport):
    """Connections to each server, made on the first request to it, when the environment is read."""

    def __init__(self) -> None:
        self._connections: dict[tuple[str, str, int | None], httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to its server. Raises `ConnectionFailed` and `InvalidSetting`."""
        origin = request.url.scheme, request.url.host, request.url.port
        if origin not in self._connections:
            self._connections[origin] = _connections_to(request.url)
        return await self._connections[origin].handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for connections in self._connections.values():
            await connections.aclose()


def _connections_to(url: httpx.URL) -> httpx.AsyncHTTPTransport:
    proxy = proxy_of(str(url))
    # Without TLS no certificates are needed.
    is_secure = url.scheme == "https" or (proxy is not None and proxy.startswith("https:"))
    verify = authorities() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # At most a hundred connections; a further request waits for one.
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=20)
    try:
        # Only later versions of httpx accept the URL on its own.
        through = None if proxy is None else httpx.Proxy(proxy)
        return httpx.AsyncHTTPTransport(verify=verify, limits=limits, proxy=through)
    except (ImportError, httpx.InvalidURL) as error:
        # An ImportError says what a SOCKS proxy needs.
        raise unusable(str(url), error) from None


async def _refuse_coded(response: httpx.Response) -> None:
    """Raise `httpx.DecodingError` for a compressed answer, before any of it is read.

    None is asked for, and a megabyte of one may become a gigabyte, while which is unpacked nothing else is done.
    """
    coding = response.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise httpx.DecodingError(f"the answer is compressed, as {coding[:40]}, although the request forbids it")


class _RequestContent(httpx.AsyncByteStream):
    """A request's content, which records whether reading it was begun, and what it raised."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream
        self.is_begun = False
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.is_begun = True
        try:
            async for piece in self._stream:
                yield piece
        except Exception as error:
            self.error = error
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()


class _AnswerContent(httpx.AsyncByteStream):
    """An answer's content that has not been read yet."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _read_errors():
            async for piece in self._stream:
                yield piece

    async def aclose(self) -> None:
        with _read_errors():
            await self._stream.aclose()


@contextmanager
def _read_errors() -> Iterator[None]:
    try:
        yield
    except _TOLD:
        raise
    except Exception as error:
        raise httpx.ReadError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
