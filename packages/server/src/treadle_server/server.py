"""Runs the application under uvicorn, and lets it say good-bye before its sockets are closed."""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette

from treadle_server.settings import Settings

GRACE_SECONDS = 5
"""How long requests in progress may still take when the server is told to stop."""


class PortTaken(OSError):
    """The address is in use, or not this machine's."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `PortTaken`, with what to do, when there is another server at the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay only on sockets that say that they are TCP: else each answer takes 40 ms longer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"can't listen on {host} port {port}: {error.strerror or error}. Is another server running there? Stop it,"
            " or choose another port with --port (0 picks a free one)."
        ) from None
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL at which the socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A uvicorn server that tells sessions and waiting requests that it goes, before it closes their connections."""

    def __init__(self, app: Starlette, settings: Settings, **config: Any) -> None:
        self._app = app
        options: dict[str, Any] = {
            "host": settings.host,
            "port": settings.port,
            "http": "httptools",
            "ws": "websockets-sansio",
            "ws_max_size": settings.max_body_bytes,
            "ws_ping_interval": settings.session_ping_seconds,
            "ws_ping_timeout": settings.session_ping_seconds,
            "lifespan": "on",
            "log_level": "warning",
            "access_log": False,
            "server_header": False,
            "timeout_graceful_shutdown": GRACE_SECONDS,
            "backlog": 2048,
        }
        super().__init__(uvicorn.Config(app, **{**options, **config}))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say good-bye, then stop as uvicorn does."""
        self._app.state.api.waits.close()
        await self._app.state.live.close()
        await super().shutdown(sockets)

    async def until_started(self, serving: "asyncio.Task[None]") -> None:
        """Return when requests are served. Raises `RuntimeError` when the start failed."""
        while not self.started:
            if serving.done():
                await serving
                raise RuntimeError("the server did not start; its log says why")
            await asyncio.sleep(0.005)
