"""Runs the application under uvicorn, and lets it end its sessions before their sockets are closed."""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from treadle_server.serving.certificates import Renewals
from treadle_server.serving.connection_limits import ConnectionLimits
from treadle_server.serving.connections import HEADER_SECONDS, IDLE_SECONDS, HttpConnection, SocketConnection
from treadle_server.serving.shutdown import Shutdown
from treadle_server.serving.turns import Turns
from treadle_server.settings import Settings

log = logging.getLogger(__name__)

GRACE_SECONDS = 5
"""How long requests in progress may still take when the server stops."""

ENDING_SECONDS = 20.0
"""How long the application may take to end: queued writes are still committed, if the database takes them."""

FORCED_SECONDS = 1.0
"""How long it may take after a second signal."""

_HANGUP: Any = getattr(signal, "SIGHUP", None)
"""Windows has none."""

_TICK_SECONDS = 0.1
"""How often uvicorn checks its clock, and whether a signal told it to stop."""

_RENEWAL_TICKS = 100
"""After how many ticks the certificate's files are checked again."""

_LOOK_SECONDS = 0.002
"""How often a stopping server checks whether its connections are closed."""


class PortTaken(OSError):
    """The address is in use, or it is not one of this machine."""


class NotStarted(RuntimeError):
    """The server could not start, for example because its database does not answer or another server has it."""


def listen(host: str, port: int, *, named: tuple[str, str] = ("--host", "--port")) -> socket.socket:
    """Return a listening socket; `named` are the options that choose its address and port.

    Raises `PortTaken`, with what to do, if the address can't be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets whose protocol is TCP: without it each answer takes 40 ms longer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except TypeError as error:  # a character that can't be in a host's name
        listener.close()
        raise PortTaken(f"can't listen on {host!r}: {error}. {_advice(socket.gaierror(), *named)}") from None
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"can't listen on {host} port {port}: {error.strerror or error}. {_advice(error, *named)}"
        ) from None
    listener.setblocking(False)
    return listener


def _advice(error: OSError, address: str, port: str) -> str:
    """Return what to do about an address that can't be listened on."""
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"Choose an address of this machine with {address} (127.0.0.1; 0.0.0.0 for all)."
    if error.errno == errno.EACCES:
        return f"Ports below 1024 are reserved: choose another with {port}, and put a proxy in front of it."
    return f"Is another server running there? Stop it, or choose another port with {port} (0 picks a free one)."


def url_of(listener: socket.socket, settings: Settings | None = None) -> str:
    """Return the URL of the listening socket: an https one if the settings name a certificate."""
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings is None or settings.tls_cert is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Server(uvicorn.Server):
    """A uvicorn server that ends sessions and waiting requests before it closes their connections."""

    def __init__(self, app: Starlette, settings: Settings, **config: Any) -> None:
        self._app = app
        self._ending = Shutdown(app)
        self._stopping = asyncio.Event()
        self._renewals = Renewals(settings)
        self.has_left = False
        """Whether it stopped although its application had not ended, because the database did not answer."""
        self.has_failed = False
        """Whether its application ended by itself, as when there is no memory left."""
        limits = ConnectionLimits(
            settings.max_connections, settings.max_connections_per_address, settings.trusted_proxies
        )
        turns = Turns()
        options: dict[str, Any] = {
            "host": settings.host,
            "port": settings.port,
            "http": partial(HttpConnection, limits=limits, turns=turns),
            "ws": partial(SocketConnection, limits=limits, turns=turns, arriving=app.state.ctx.arriving),
            "ws_max_size": settings.max_body_bytes,
            # With compression a small frame may grow a thousandfold: a stranger could keep the server busy.
            "ws_per_message_deflate": False,
            "timeout_keep_alive": IDLE_SECONDS,
            "ws_ping_interval": settings.session_ping_seconds,
            "ws_ping_timeout": settings.session_ping_seconds,
            "interface": "asgi3",
            "lifespan": "on",
            "log_level": "warning",
            # Its lines go to the same log as all others (`log.py`).
            "log_config": None,
            "access_log": False,
            "server_header": False,
            # By default uvicorn trusts every client on this machine, and any address that it claims.
            "proxy_headers": bool(settings.trusted_proxies),
            "forwarded_allow_ips": list(settings.trusted_proxies),
            "timeout_graceful_shutdown": GRACE_SECONDS,
            "backlog": 2048,
            "ssl_certfile": settings.tls_cert,
            "ssl_keyfile": settings.tls_key,
        }
        super().__init__(uvicorn.Config(self._explained, **{**options, **config}))

    async def _explained(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; a start or request that ends for a known reason is not logged with a traceback."""

        async def tell(message: Message) -> None:
            is_known = message["type"] == "lifespan.startup.failed" and (self._app.state.failure or self.should_exit)
            if is_known or (message["type"] == "lifespan.shutdown.failed" and self.force_exit):
                # After a second signal everything is cut off, which is no failure.
                message = {"type": message["type"]}
            await send(message)

        await self._ending(scope, receive, tell if scope["type"] == "lifespan" else send)

    @property
    def outdated(self) -> str | None:
        """Return why the server can't go on, if a newer server has migrated its database."""
        outdated: str | None = self._app.state.ctx.engine.store.outdated
        return outdated

    def stop(self) -> None:
        """Stop at once; requests in progress get `GRACE_SECONDS`."""
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM as uvicorn does, but do not raise them again: a stopped server exits with 0.

        A closed terminal (SIGHUP) stops the server too, unless it was started by nohup.
        """
        with super().capture_signals():
            is_main = threading.current_thread() is threading.main_thread()
            heeds_hangup = is_main and _HANGUP is not None and signal.getsignal(_HANGUP) is signal.SIG_DFL
            if heeds_hangup:
                signal.signal(_HANGUP, self.handle_exit)
            try:
                yield
            finally:
                if heeds_hangup:
                    signal.signal(_HANGUP, signal.SIG_DFL)
                self._captured_signals.clear()

    async def main_loop(self) -> None:
        """Tick as uvicorn does, but end at once when `stop` is called.

        The server also ends when a newer one has migrated its database, so that clients connect to another server, and
        when its application has ended: otherwise it would answer every request with an error, and not be restarted.
        """
        counter = 0
        while not await self.on_tick(counter) and self.outdated is None:
            if self.lifespan.shutdown_event.is_set():
                self.has_failed = True
                break
            counter = (counter + 1) % 864_000
            if self.config.ssl is not None and counter % _RENEWAL_TICKS == 0:
                self._renewals.look(self.config.ssl)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and listen. Raises `NotStarted` with the reason.

        uvicorn's own allows a minute for a TLS handshake. Unfinished handshakes count towards no limit, and a few
        hundred of them took every file descriptor for that long.
        """
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise NotStarted(self._app.state.failure or "the server did not start; its log says why")
        loop, config = asyncio.get_running_loop(), self.config
        if config.ssl is not None:
            self._renewals.look(config.ssl)
        protocol: Any = config.http_protocol_class
        connect = partial(protocol, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        self.servers = [
            await loop.create_server(
                connect,
                sock=listener,
                backlog=config.backlog,
                ssl=config.ssl,
                ssl_handshake_timeout=None if config.ssl is None else HEADER_SECONDS,
            )
            for listener in sockets or []
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End sessions and waiting requests, close all connections, and end the lifespan.

        The same as uvicorn's own without its fixed waits of a tenth of a second, which add up in test suites.
        """
        self._app.state.ctx.waits.close()
        await self._app.state.live.close()
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await self._all_answered()
        await self._ending.cut_off(self.server_state.tasks)
        if not self.force_exit:
            await self._end_application()

    async def _end_application(self) -> None:
        """End the lifespan, but do not wait for ever, and after a second signal hardly at all.

        If a database or artifact store accepts requests and never answers, the part that waits for it never ends.
        """
        ending = asyncio.ensure_future(self.lifespan.shutdown())
        loop = asyncio.get_running_loop()
        limit, is_forced = loop.time() + ENDING_SECONDS, False
        while not ending.done() and loop.time() < limit:
            await asyncio.wait({ending}, timeout=_TICK_SECONDS)
            if self.force_exit and not is_forced:
                is_forced, limit = True, min(limit, loop.time() + FORCED_SECONDS)
        if ending.done():
            await ending
        else:
            self.has_left = True
            ending.cancel()
            log.warning(
                "the server exits without waiting for its database or artifact store any longer: it does not answer"
            )

    async def _all_answered(self) -> None:
        """Wait until no connection and no request is left, or a second signal forces the end."""
        state = self.server_state
        while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110 - uvicorn sets no event
            await asyncio.sleep(_LOOK_SECONDS)

    async def until_started(self, serving: "asyncio.Task[None]") -> None:
        """Wait until requests are served or a signal has stopped the start. Raises `NotStarted` if it failed.

        If this is cancelled, as by a Ctrl-C before the server handles signals, the start is stopped too.
        """
        try:
            while not (self.started or self.should_exit):
                if serving.done():
                    await serving
                    raise NotStarted("the server did not start; its log says why")
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.should_exit = True
            raise
        finally:
            if self.should_exit and not self.started:
                # The start may be waiting for the database: don't wait for that.
                serving.cancel()
                await asyncio.wait({serving})
