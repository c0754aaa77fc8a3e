"""Serves the dashboard to browsers with textual-serve, but only to those that have the key.

Whoever opens the page acts with the token of the user who serves it. So by default only this machine can reach it, the
page requires a key that is new at each start, and other sites can't get in: the key is kept in a cookie that they can't
send, and the socket only accepts connections from the dashboard's own origin.
"""

import asyncio
import hmac
import os
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.typedefs import Middleware
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from treadle.cli.show import say
from treadle.transport.addresses import is_loopback
from treadle_tui.page import PageProcess

COOKIE = "treadle-watch"
MOST_PAGES = 32
"""The most pages with a dashboard at a time: each is a process of about 70 MB."""

PATIENCE_SECONDS = 5.0
"""How long a page waits for a place: that of a page that is reloaded is only free once its old dashboard has ended."""

HEARTBEAT_SECONDS = 15.0
"""How often a page's browser is asked whether it is there."""

TEMPLATES = Path(__file__).parent / "web_page"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " font-src 'self'; connect-src 'self' ws: wss:; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PublicAddress(Exception):
    """The dashboard would be reachable from other machines, and `public` is not set."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"other machines can reach {host}: whoever has the page's address acts on the queue with your token."
            " Add --public if you want that, and --read-only to let people only look; it is safer to stay on 127.0.0.1"
            " and reach it with ssh -L"
        )


class WatchServer(Server):
    """textual-serve's server with access control."""

    def __init__(self, command: Sequence[str], *, host: str, port: int, most_pages: int = MOST_PAGES) -> None:
        """Prepare to run `command` for each page; its words are quoted for the shell that textual-serve starts."""
        # exec: what is killed is the dashboard then, and not a shell in front of it. trap: a Ctrl-C reaches the pages
        # too, and one that only starts would end with a traceback; it is told to exit like all others.
        words = f"trap '' INT; exec {shlex.join(command)}"
        super().__init__(words, host=host, port=port, title="treadle watch", templates_path=TEMPLATES)
        self.key = secrets.token_urlsafe(16)
        self._most_pages = most_pages
        self._places = asyncio.Semaphore(most_pages)
        self._sockets: set[web.WebSocketResponse] = set()

    @property
    def address(self) -> str:
        """The URL to open in a browser."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/?key={self.key}"

    def serve(self, debug: bool = False) -> None:  # noqa: FBT001, FBT002 -- textual-serve's signature
        """Serve until interrupted or terminated, and print the URL as soon as it can be reached.

        Raises `OSError` for an address that can't be served on.
        """
        self.debug = debug
        self.initialize_logging()
        # textual-serve prints it in `on_startup`, which runs before anything listens.
        web.run_app(self._make_app(), host=self.host, port=self.port, print=lambda _: self._say_where())

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing yet."""

    async def on_shutdown(self, app: web.Application) -> None:
        """Close the pages, for which Ctrl-C would wait otherwise."""
        closing = (socket.close(code=WSCloseCode.GOING_AWAY) for socket in self._sockets)
        await asyncio.gather(*closing)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run a dashboard for a page until one of them ends, or say that there are too many."""
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS)
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            await self._serve_page(request, socket)
        finally:
            self._sockets.discard(socket)
        return socket

    async def _serve_page(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        if not await self._found_place():
            await self._refuse(socket)
            return
        try:
            await self._run_dashboard(request, socket)
        finally:
            self._places.release()

    async def _found_place(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._places.acquire()
        except TimeoutError:
            return False

    async def _run_dashboard(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        async def close() -> None:
            await socket.close()

        dashboard = PageProcess(
            self.command,
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=close,
            download_manager=self.download_manager,
        )
        await dashboard.start(to_int(request.query.get("width", ""), 80), to_int(request.query.get("height", ""), 24))
        try:
            await self._process_messages(socket, dashboard)
        finally:
            await dashboard.stop()

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        """Pass on what the page tells, as textual-serve does; only that one ends where half a character is pasted."""
        async for message in websocket:
            # The message is an error where what was pasted is too long: the page is closed then.
            match message.json() if message.type == WSMsgType.TEXT else ():
                case ["stdin", str(typed)]:
                    await app_service.send_bytes(typed.encode(errors="replace"))
                case ["resize", {"width": int(width), "height": int(height)}]:
                    await app_service.set_terminal_size(width, height)
                case ["ping", sent]:
                    await websocket.send_json(["pong", sent])
                case ["blur"]:
                    await app_service.blur()
                case ["focus"]:
                    await app_service.focus()

    async def _refuse(self, socket: web.WebSocketResponse) -> None:
        """Say in the page why it has no dashboard, until it is closed."""
        full = (
            f"{self._most_pages} pages with a dashboard are open here already, which is the most.",
            "Close one of them, then reload this page.",
        )
        await socket.send_bytes("\r\n".join(full).encode())
        async for _ in socket:
            await socket.send_json(["pong", "0"])  # The page asks whether its socket still lives.

    def _say_where(self) -> None:
        say(f"The dashboard is at {self.address}")
        say("Whoever has this address acts with your token. Press Ctrl-C to stop.")

    def initialize_logging(self) -> None:
        """Leave logging alone: textual-serve's setup shows local variables, and secrets with them."""

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._door())
        return app

    def _door(self) -> Middleware:
        @web.middleware
        async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = self._refusal(request)
            if refusal is not None:
                return web.Response(status=403, text=f"{refusal}\n", headers=_HEADERS)
            if request.path == "/" and "key" in request.query:
                return self._let_in()
            try:
                response = await handler(request)
            except ConnectionError:
                return web.Response()  # For nobody: a page may go at any time, as one that is reloaded does.
            if not response.prepared:
                response.headers.update(_HEADERS)
            return response

        return door

    def _refusal(self, request: web.Request) -> str | None:
        """Return why a request is refused, or None if it is not."""
        origin = request.headers.get("Origin")
        if request.path == "/ws" and origin not in {f"http://{request.host}", f"https://{request.host}"}:
            return "This socket serves only the dashboard's own page."
        shown = request.cookies.get(self._cookie) or ""
        if request.path == "/":
            shown = request.query.get("key") or shown
        # Invalid UTF-8 in a header arrives as surrogate escapes.
        if not hmac.compare_digest(shown.encode(errors="surrogateescape"), self.key.encode()):
            return "Open the address that `treadle watch --web` printed: the key is missing or out of date."
        return None

    @property
    def _cookie(self) -> str:
        # Cookies ignore ports: two dashboards on one machine must not use each other's.
        return f"{COOKIE}-{self.port}"

    def _let_in(self) -> web.Response:
        response = web.Response(status=303, headers={**_HEADERS, "Location": "/"})
        response.set_cookie(self._cookie, self.key, httponly=True, samesite="Strict")
        return response


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `treadle watch` with these arguments in the same interpreter.

    -P: with -c alone, Python would import modules from the directory in which the dashboard was started.
    """
    return [sys.executable, "-P", "-c", "from treadle.cli import main; main()", "watch", *arguments]


def serve_web(arguments: Sequence[str], *, host: str, port: int, public: bool, token: str | None) -> None:
    """Serve until interrupted. Raises `PublicAddress` for an address that others can reach, unless `public` is set."""
    if not is_loopback(host) and not public:
        raise PublicAddress(host)
    if token is not None:
        # Not as an argument, which every user of the machine can see.
        os.environ["TREADLE_TOKEN"] = token
    # Each page gets a dashboard in a process of its own.
    WatchServer(command_of(arguments), host=host, port=port).serve()
