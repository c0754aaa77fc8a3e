"""The session socket: one websocket that carries requests, answers and pushes, and comes back when it breaks."""

import asyncio
import contextlib
import ipaddress
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from treadle.errors import (
    ConnectionFailed,
    ConnectionLost,
    InvalidArguments,
    PayloadTooLarge,
    ProtocolMismatch,
    SocketRefused,
    TreadleError,
    Unauthorized,
    error_for,
    problem_named,
)
from treadle.wire.frames import PROTOCOL
from treadle.wire.problems import Problem

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of one frame at most, either way."""

FULL_FRAME = 1024 * 1024
"""Bytes after which a frame is sent and the next one begun, so that one large batch doesn't hold up the rest."""

MAX_PENDING = 10_000
"""Unanswered requests at most; a further one waits until an answer came."""

_OPEN_TIMEOUT = 10.0
_LONGEST_DELAY = 5.0
_DOWN = frozenset({429, 500, 502, 503, 504})

log = logging.getLogger("treadle.session")

Push = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class _Request:
    item: dict[str, Any]
    future: asyncio.Future[Any]
    resend: bool
    bound: bool
    sent: bool = False


class Session:
    """A connection that `run` keeps open; `call` asks, `on_push` gets what the server sends by itself.

    `patience` is how many seconds requests wait for a broken connection to come back before they fail; a first
    connection that can't be made fails them at once unless `first_patience` says otherwise. `on_connect` runs after
    each opening, beside the requests; `on_disconnect` when the connection broke; `on_down` when requests were failed
    because no server could be reached. Give each session to one event loop only.
    """

    def __init__(
        self,
        urls: tuple[str, ...],
        token: str | None,
        *,
        on_push: Push,
        on_connect: Callable[[], Awaitable[None]] | None = None,
        on_disconnect: Callable[[], None] | None = None,
        on_down: Callable[[TreadleError], None] | None = None,
        patience: float = 30.0,
        first_patience: float = 0.0,
        client: str | None = None,
    ) -> None:
        self._urls = list(urls)
        self._token = token
        self._on_push = on_push
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._on_down = on_down
        self._patience = patience
        self._first_patience = first_patience
        self._client = client
        self._ws: ClientConnection | None = None
        self._next = 1
        self._pending: dict[int, _Request] = {}
        self._outbox: list[int] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._closing = False
        self._running: asyncio.Task[Any] | None = None
        self._ended: TreadleError | None = None
        self.hello: dict[str, Any] | None = None
        """What the server said of itself when the connection was last opened."""

    @property
    def is_connected(self) -> bool:
        """Whether the socket is open and greeted at this moment."""
        return self._ws is not None

    async def call(
        self, op: str, fields: dict[str, Any] | None = None, *, resend: bool = True, bound: bool = False
    ) -> Any:
        """Send one request and return its `ok`.

        With `resend` the request is sent again when the connection broke before the answer came: only for what does
        no harm twice. Without it that raises `ConnectionLost`. A `bound` request belongs to the connection that is
        open now: it fails at once when there is none, and never goes to the next one. Raises the problem's
        `ProblemError`, and `ConnectionFailed` when no server could be reached in time.
        """
        if bound and self._ws is None:
            raise ConnectionFailed("there is no connection at this moment")
        while len(self._pending) >= MAX_PENDING and self._ended is None:
            self._room.clear()
            await self._room.wait()
        if self._ended is not None:
            raise self._ended
        n = self._next
        self._next += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[n] = _Request({"op": op, "n": n, **(fields or {})}, future, resend, bound)
        self._outbox.append(n)
        self._wake.set()
        try:
            return await future
        finally:
            self._pending.pop(n, None)
            self._room.set()

    async def run(self) -> None:
        """Keep the connection until `close`; end early, failing all requests, when the server refuses for good."""
        self._running = asyncio.current_task()
        try:
            while not self._closing:
                ws = await self._connect()
                await self._serve(ws)
        except TreadleError as error:
            self._end(error)
        except asyncio.CancelledError:
            if not self._closing:
                raise
        finally:
            self._end(ConnectionFailed("the session was closed"))

    async def close(self) -> None:
        """Close the connection and fail what is unanswered."""
        self._closing = True
        self._end(ConnectionFailed("the session was closed"))
        if self._ws is not None:
            await self._ws.close()
        elif self._running is not None:
            # It is connecting, or waits before it tries again.
            self._running.cancel()

    async def _connect(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        since = loop.time()
        patience = self._first_patience if self.hello is None else self._patience
        # A client that fails at once raises the error: there is nothing to log.
        is_first = patience > 0
        for delay in delays():
            error: TreadleError = ConnectionFailed("no server's address is given")
            for url in list(self._urls):
                try:
                    return await self._open(url)
                except SocketRefused as refused:
                    if self.hello is None:
                        raise
                    error = refused
                except ConnectionFailed as failed:
                    error = failed
                # The next attempt begins with another server.
                self._urls.append(self._urls.pop(0))
            level = logging.WARNING if is_first else logging.DEBUG
            log.log(level, "%s; trying again", error)
            is_first = False
            if loop.time() - since >= patience:
                self._fail(error)
            await asyncio.sleep(delay)
        raise AssertionError("the delays never end")

    async def _open(self, url: str) -> ClientConnection:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        split = urlsplit(url)
        try:
            ws = await connect(
                f"ws{url.removeprefix('http')}/v1/session",
                additional_headers=headers,
                max_size=MAX_FRAME,
                compression=None,
                open_timeout=_OPEN_TIMEOUT,
                proxy=None if is_loopback(split.hostname) else True,
            )
        except InvalidStatus as error:
            raise _refusal(url, error) from None
        except TimeoutError:
            raise SocketRefused(f"{url} did not open a websocket within {_OPEN_TIMEOUT:.0f} s") from None
        except OSError as error:
            raise ConnectionFailed(_unreachable(url, error)) from None
        except WebSocketException as error:
            raise SocketRefused(f"{url} opens no websocket: {error}") from None
        try:
            self.hello = await self._greet(ws)
        except (ConnectionClosed, TimeoutError):
            fatal = _close_error(ws)
            raise fatal or ConnectionFailed(f"{url} closed the connection before it greeted: try again") from None
        return ws

    async def _greet(self, ws: ClientConnection) -> dict[str, Any]:
        hello: dict[str, Any] = {"op": "hello", "n": 0, "protocol": PROTOCOL}
        if self._client is not None:
            hello["client"] = self._client
        await ws.send(to_json({"items": [hello]}), text=True)
        async with asyncio.timeout(_OPEN_TIMEOUT):
            message = await ws.recv()
        for item in _items(message):
            if item.get("re") == 0:
                if "problem" in item:
                    raise error_for(_problem(item["problem"]))
                greeting: dict[str, Any] = item["ok"]
                return greeting
        raise ProtocolMismatch(f"the server's first frame answers no hello: {message[:200]!r}")

    async def _serve(self, ws: ClientConnection) -> None:
        self._ws = ws
        self._outbox = sorted(self._pending)
        self._wake.set()
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [group.create_task(self._write(ws))]
                if self._on_connect is not None:
                    helpers.append(group.create_task(_run(self._on_connect)))
                await self._read(ws)
                for helper in helpers:
                    helper.cancel()
        finally:
            self._ws = None
            if self._on_disconnect is not None:
                self._on_disconnect()
            await ws.close()
        if (fatal := _close_error(ws)) is not None and not self._closing:
            raise fatal
        self._lose(too_large=ws.close_code == 1009)

    async def _read(self, ws: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                for item in _items(await ws.recv()):
                    if (n := item.get("re")) is not None:
                        self._answer(n, item)
                    elif "push" in item:
                        self._on_push(item)

    def _answer(self, n: int, item: dict[str, Any]) -> None:
        request = self._pending.get(n)
        if request is None or request.future.done():
            return
        if "ok" in item:
            request.future.set_result(item["ok"])
        else:
            request.future.set_exception(error_for(_problem(item.get("problem"))))

    async def _write(self, ws: ClientConnection) -> None:
        # Every coroutine that asked in one turn of the loop has added its item before this task wakes.
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._wake.wait()
                self._wake.clear()
                numbers, self._outbox = self._outbox, []
                for frame in self._frames(numbers):
                    await ws.send(frame, text=True)

    def _frames(self, numbers: list[int]) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for n in numbers:
            request = self._pending.get(n)
            if request is None or request.future.done():
                continue
            try:
                part = to_json(request.item, inf_nan_mode="null")
            except (ValueError, RecursionError) as error:
                request.future.set_exception(InvalidArguments(f"the request can't be written as JSON: {error}"))
                continue
            if len(part) > MAX_FRAME - 64:
                request.future.set_exception(_too_large(len(part)))
                continue
            request.sent = True
            if parts and size + len(part) > FULL_FRAME:
                yield b'{"items":[' + b",".join(parts) + b"]}"
                parts, size = [], 0
            parts.append(part)
            size += len(part)
        if parts:
            yield b'{"items":[' + b",".join(parts) + b"]}"

    def _lose(self, *, too_large: bool) -> None:
        """After the connection broke: fail what was sent and may not be sent again."""
        for request in self._pending.values():
            if request.future.done() or not (request.sent or request.bound):
                continue
            if too_large:
                request.future.set_exception(_too_large(None))
            elif request.bound or not request.resend:
                lost = "the connection broke before the answer came: look whether it was done before you try again"
                request.future.set_exception(ConnectionLost(lost))

    def _fail(self, error: TreadleError) -> None:
        for request in list(self._pending.values()):
            if not request.future.done():
                request.future.set_exception(error)
        if self._on_down is not None:
            self._on_down(error)

    def _end(self, error: TreadleError) -> None:
        if self._ended is None:
            self._ended = error
            self._fail(error)
            self._room.set()


async def _run(hook: Callable[[], Awaitable[None]]) -> None:
    await hook()


def _items(message: str | bytes) -> list[dict[str, Any]]:
    try:
        items: list[dict[str, Any]] = from_json(message)["items"]
    except (ValueError, KeyError, TypeError):
        raise ProtocolMismatch(f"the server sent what is no frame: {message[:200]!r}") from None
    return items


def _problem(body: object) -> Problem:
    try:
        return Problem.model_validate(body)
    except ValidationError:
        return problem_named("internal-server-error", f"the server's problem can't be read: {body!r}")


def delays() -> Iterator[float]:
    """Seconds between attempts: doubling from 0.1 to 5, each drawn from its upper half, so that crowds spread out."""
    delay = 0.1
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, _LONGEST_DELAY)


def _refusal(url: str, error: InvalidStatus) -> TreadleError:
    status, body = error.response.status_code, error.response.body
    if status in _DOWN:
        return ConnectionFailed(f"{url} answers {status}: it is not ready, or its proxy doesn't reach it")
    try:
        problem = Problem.model_validate_json(body or b"")
    except ValidationError:
        if status == 401:
            return Unauthorized(problem_named("unauthorized", f"{url} refused the token"))
        return SocketRefused(f"{url} answers {status} instead of opening a websocket")
    if problem.status in {401, 403}:
        return error_for(problem)
    return SocketRefused(f"{url} opens no websocket: {problem.title}")


def _close_error(ws: ClientConnection) -> TreadleError | None:
    reason = ws.close_reason or "no reason given"
    if ws.close_code == 4401:
        return Unauthorized(problem_named("unauthorized", f"{reason}; set TREADLE_TOKEN to a valid token"))
    if ws.close_code == 4400:
        return ProtocolMismatch(f"the server refused a frame: {reason}; are its version and this one's compatible?")
    return None


def _too_large(size: int | None) -> PayloadTooLarge:
    seen = "more than the server takes" if size is None else f"{size} bytes, more than {MAX_FRAME}"
    return PayloadTooLarge(problem_named("payload-too-large", f"the request has {seen}: send less at a time"))


def _unreachable(url: str, error: OSError) -> str:
    cause = error.strerror or str(error) or type(error).__name__
    return f"no server answers at {url} ({cause}): start one with `treadle server`, or set TREADLE_URL"


def is_loopback(host: str | None) -> bool:
    """Return whether a URL's host is this machine, which no proxy stands before."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
