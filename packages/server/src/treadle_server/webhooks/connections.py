"""Connections to receivers that read a bounded amount, in small pieces, and yield to the loop in between.

Any number of interim answers (1xx) may precede the final one, and httpcore parses all that have arrived without a
pause: 64 KB of them blocked the loop for 0.1 s, and those of eight receivers for a second.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

PIECE = 4096
"""Bytes that are read at once: 160 of the shortest interim answers, which take 6 ms to parse."""

MOST = 65_536
"""Most bytes that are read from a receiver: the heads of its answers, and the beginning of the body."""


class _Stream(httpcore.AsyncNetworkStream):
    """A connection."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._left = MOST

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as httpcore calls it
        """Read a piece. Raises `httpcore.RemoteProtocolError` when too much has come."""
        if self._left <= 0:
            raise httpcore.RemoteProtocolError(f"more than {MOST} bytes came before the end of the answer")
        # Buffered data is returned at once, so a receiver that always has more would never let others run.
        await asyncio.sleep(0)
        piece = await self._stream.read(min(max_bytes, PIECE), timeout)
        self._left -= len(piece)
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - likewise
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - likewise
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Network(httpcore.AsyncNetworkBackend):
    """Opens connections."""

    def __init__(self) -> None:
        self._real = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - likewise
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._real.connect_tcp(host, port, timeout, local_address, socket_options))


class Connections(httpx.AsyncHTTPTransport):
    """The transport of an httpx client; no connection is used twice."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        # Replaces the pool that httpx made, because httpx has no option for the network backend.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context, max_connections=None, max_keepalive_connections=0, network_backend=_Network()
        )
