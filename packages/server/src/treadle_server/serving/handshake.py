"""Connections before their TLS handshake: they are counted as all others are, and have as long as a header may take.

Left to asyncio they are known to nobody for up to a minute: a few hundred, half begun, took every file descriptor.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from treadle_server.serving.connection_limits import ConnectionLimits
from treadle_server.serving.counted import Counted


class Handshake(Counted, asyncio.Protocol):
    """A connection until both sides have agreed on a key; then it is another protocol's."""

    def __init__(
        self,
        *,
        limits: ConnectionLimits,
        context: ssl.SSLContext,
        seconds: float,
        follow: Callable[..., asyncio.Protocol],
        server_state: ServerState,
        **options: Any,
    ) -> None:
        super().__init__(limits=limits)
        self._context = context
        self._seconds = seconds
        self._follow = partial(follow, server_state=server_state, **options)
        self._connections = server_state.connections
        self._early = bytearray()
        """What came right behind the handshake."""
        self._is_lost = False
        self._shaking: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the handshake, if there is a place: nobody who speaks TLS could be told why not."""
        self.transport = cast("asyncio.Transport", transport)
        self.client = get_remote_addr(self.transport)
        self._come()
        if not self._is_in:
            self.transport.abort()
            return
        # What comes before the handshake is begun with would be nobody's.
        self.transport.pause_reading()
        self._connections.add(cast("Any", self))
        self._shaking = asyncio.get_running_loop().create_task(self._shake(), name="handshake")

    def data_received(self, data: bytes) -> None:
        """Keep what came before the protocol is there that it is for."""
        self._early += data

    def connection_lost(self, _: Exception | None) -> None:
        """Take note that it is over."""
        self._is_lost = True
        self._end()

    def shutdown(self) -> None:
        """Close it: the server stops."""
        self.transport.abort()

    async def _shake(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            made = await loop.start_tls(
                self.transport, self, self._context, server_side=True, ssl_handshake_timeout=self._seconds
            )
        except OSError:
            return  # whoever spoke no TLS, took too long or went away
        finally:
            self._end()
        # One that was cut off meanwhile is given by uvloop as if it were agreed upon.
        if made is None or self._is_lost or self.transport.is_closing():
            return
        protocol = self._follow()
        made.set_protocol(protocol)
        protocol.connection_made(made)
        if self._early and not made.is_closing():
            protocol.data_received(bytes(self._early))

    def _end(self) -> None:
        self._leave()
        self._connections.discard(cast("Any", self))
