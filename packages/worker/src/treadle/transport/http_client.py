"""HTTP connections: what breaks on the network is told as httpx tells it, whichever library throws it.

httpx maps what it knows of. Past it come, among others, an AttributeError of anyio's when a peer resets a connection
right after taking it and uvloop has closed the socket by then, an `ssl.SSLError` of a read, a RuntimeError of uvloop's,
and an `anyio.ClosedResourceError` of a handshake. A network is no defect of whoever is on it: all of them are here.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from treadle.errors import ConnectionFailed

_TOLD = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
"""What httpx says by itself; a `StreamError` is about the code that calls it."""


class NetworkClient(httpx.AsyncClient):
    """An `httpx.AsyncClient` that raises an `httpx.RequestError` for whatever happens to a request on the way.

    It is a `ConnectError` where nothing of it can have arrived, for its content was not asked for yet, which httpx does
    once the headers are written; otherwise a `ReadError`. What the content raises by itself is passed on.
    """

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request; as httpx does, a client that is closed raises a RuntimeError."""
        if self.is_closed:
            return await super().send(request, **options)
        assert isinstance(request.stream, httpx.AsyncByteStream)
        request.stream = content = _RequestContent(request.stream)
        try:
            response = await super().send(request, **options)
        except Exception as error:
            if content.error is not None:
                raise content.error from None
            if isinstance(error, _TOLD):
                raise
            kind = httpx.ReadError if content.is_begun else httpx.ConnectError
            raise kind(_sentence(error), request=request) from error
        if not response.is_closed:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _AnswerContent(response.stream)
        return response


def network_client(*, direct: bool, is_secure: bool = True, **options: Any) -> NetworkClient:
    """Return connections to servers that no proxy stands before, or to the others; SSL_CERT_FILE counts for both.

    Without TLS (`is_secure`) no certificates are read. Raises `ConnectionFailed` while the authorities can't be read:
    they may be there later, as a server may.
    """
    try:
        verify = httpx.create_ssl_context() if is_secure else True
        return NetworkClient(trust_env=not direct, verify=verify, **options)
    except OSError as error:
        raise ConnectionFailed(
            f"the authorities that SSL_CERT_FILE or SSL_CERT_DIR names can't be read ({error}): name a PEM file"
        ) from None


class _RequestContent(httpx.AsyncByteStream):
    """A request's content, which knows whether it was begun, and what it raised."""

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
    """An answer's content that is still to come."""

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
