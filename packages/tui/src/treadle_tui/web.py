"""Serves the dashboard to a browser by textual-serve, and lets nobody in who was not given the key.

Whoever reaches the page acts with the token of the one who serves it. So the address is this machine's own unless one
insists, the page wants a key that is made anew at each start, and other pages can't reach in: the key is kept in a
cookie that they can't send along, and the socket takes connections from the dashboard's own origin alone.
"""

import hmac
import os
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Middleware
from textual_serve.server import Server

from treadle.cli.show import say
from treadle.transport.addresses import is_loopback

COOKIE = "treadle-watch"
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
    """The dashboard was to be served where others reach it, and nobody insisted."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} is reached from other machines: whoever has the page's address acts on the queue with your token."
            " Say --public if that is meant, and --read-only if they are only to look; better, leave it on 127.0.0.1"
            " and reach it by ssh -L"
        )


class WatchServer(Server):
    """textual-serve's server with a door."""

    def __init__(self, command: Sequence[str], *, host: str, port: int) -> None:
        """Prepare to run `command` for each page; its words are quoted for the shell that textual-serve starts."""
        super().__init__(shlex.join(command), host=host, port=port, title="treadle watch", templates_path=TEMPLATES)
        self.key = secrets.token_urlsafe(16)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/?key={self.key}"

    def serve(self, debug: bool = False) -> None:  # noqa: FBT001, FBT002 -- as textual-serve has it
        """Serve until interrupted or terminated, and say where it is as soon as it can be reached.

        Raises `OSError` for an address that can't be served on.
        """
        self.debug = debug
        self.initialize_logging()
        # textual-serve's own says it from `on_startup`, which runs before anything listens.
        web.run_app(self._make_app(), host=self.host, port=self.port, print=lambda _: self._say_where())

    async def on_startup(self, app: web.Application) -> None:
        """Say nothing yet."""

    def _say_where(self) -> None:
        say(f"The dashboard is at {self.address}")
        say("Whoever has this address acts with your token. Ctrl-C ends it.")

    def initialize_logging(self) -> None:
        """Leave the log alone: textual-serve's own shows local variables, and with them secrets."""

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
            response = await handler(request)
            if not response.prepared:
                response.headers.update(_HEADERS)
            return response

        return door

    def _refusal(self, request: web.Request) -> str | None:
        """Return why a request is not let in, or None."""
        origin = request.headers.get("Origin")
        if request.path == "/ws" and origin not in {f"http://{request.host}", f"https://{request.host}"}:
            return "This socket is for the dashboard's own page."
        shown = request.cookies.get(self._cookie) or ""
        if request.path == "/":
            shown = request.query.get("key") or shown
        # What a header holds that is no UTF-8 is half a character here.
        if not hmac.compare_digest(shown.encode(errors="surrogateescape"), self.key.encode()):
            return "Open the address that `treadle watch --web` printed: its key is missing here, or an old one."
        return None

    @property
    def _cookie(self) -> str:
        # Cookies know no ports: two dashboards on one machine must not take each other's.
        return f"{COOKIE}-{self.port}"

    def _let_in(self) -> web.Response:
        response = web.Response(status=303, headers={**_HEADERS, "Location": "/"})
        response.set_cookie(self._cookie, self.key, httponly=True, samesite="Strict")
        return response


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `treadle watch` with some arguments, by this very interpreter.

    -P: with -c alone, Python would take modules from whatever directory the dashboard was started in.
    """
    return [sys.executable, "-P", "-c", "from treadle.cli import main; main()", "watch", *arguments]


def serve_web(arguments: Sequence[str], *, host: str, port: int, public: bool, token: str | None) -> None:
    """Serve until interrupted. Raises `PublicAddress` for an address that others reach, unless `public` is said."""
    if not is_loopback(host) and not public:
        raise PublicAddress(host)
    if token is not None:
        # Not in the command's words, which every user of the machine can see.
        os.environ["TREADLE_TOKEN"] = token
    # Each page gets a dashboard of its own, in its own process.
    WatchServer(command_of(arguments), host=host, port=port).serve()
