"""The session socket: one websocket that carries requests, answers and pushes, and reconnects when it breaks."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine, Iterator
from copy import copy
from typing import Any

from websockets.exceptions import ConnectionClosed

from treadle.clock import monotonic
from treadle.errors import (
    ConnectionFailed,
    ConnectionLost,
    InvalidArguments,
    ProblemError,
    ProtocolMismatch,
    SocketRefused,
    TreadleError,
    Unauthorized,
    error_for,
    problem_of,
)
from treadle.transport.addresses import as_one, shuffled
from treadle.transport.answers import reading
from treadle.transport.bearer import Bearer, Refusals, Way, bearer_of
from treadle.transport.dialing import MAX_FRAME, OPENING, Connection, better, close_error, dial, items_of
from treadle.transport.older_servers import is_older, without
from treadle.transport.open_requests import LONGEST, LOOKS, LOST, OpenRequest, oversized
from treadle.transport.retries import QuietLog, delays
from treadle.values import encoded
from treadle.wire.amounts import in_seconds
from treadle.wire.values import MOST_VALUES, has_too_many

FULL_FRAME = 1024 * 1024
"""Bytes after which a frame is sent and a new one begun, so that one large batch doesn't hold up the rest."""

FRAME_OVERHEAD = 64
"""Bytes of a frame around its items, estimated generously."""

MAX_PENDING = 10_000
"""The most unanswered requests; a further one waits for an answer to another."""

STEADY = 1.0
"""Seconds after which a connection counts as stable; after one that broke sooner, there is a pause."""

FIRST_OPENING = 5.0
"""Seconds for each of several addresses at first: a stopped process accepts connections, and does nothing more."""

ROUND = 10.0
"""Seconds in which all addresses are tried for the socket while plain HTTP is used (at least 2.5 for each)."""

log: logging.Logger = logging.getLogger("treadle.session")

Push = Callable[[dict[str, Any]], None]


class Session:
    """A connection that `run` keeps open; `call` makes requests, `on_push` gets what the server pushes.

    `patience` is for how many seconds requests wait for a broken connection to be restored before they fail. If the
    first connection can't be made, they fail at once, unless `first_patience` says otherwise. If a server answers but
    opens no websocket, they fail at once with `SocketRefused`, as plain HTTP may work. Even so the session goes on
    trying, each address in turn, until a Treadle server refuses it.

    `on_connect` runs after each opening, concurrently with requests; `on_disconnect` when the connection broke;
    `on_down` when requests failed because no server could be reached. Use a session in one event loop only.
    """

    def __init__(
        self,
        urls: tuple[str, ...],
        token: str | Bearer | None,
        *,
        on_push: Push,
        on_connect: Callable[[], Coroutine[Any, Any, None]] | None = None,
        on_disconnect: Callable[[], None] | None = None,
        on_down: Callable[[TreadleError], None] | None = None,
        patience: float = 30.0,
        first_patience: float = 0.0,
        client: str | None = None,
    ) -> None:
        self._urls = shuffled(urls)
        self._bearer = bearer_of(token)
        self._refusals = Refusals(self._bearer, urls)
        self._odd = QuietLog(log)
        self._odd_in_turn = 0
        self._on_push = on_push
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._on_down = on_down
        self._patience = patience
        self._first_patience = first_patience
        self._client = client
        self._ws: Connection | None = None
        self._next = 1
        self._pending: dict[int, OpenRequest] = {}
        self._outbox: list[int] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._closing = False
        self._running: asyncio.Task[Any] | None = None
        self._ended: TreadleError | None = None
        self._answered_at = -math.inf
        self.hello: dict[str, Any] | None = None
        """The server's greeting when the connection was last opened."""
        self.heard: float = -math.inf
        """When the latest of the answered requests was made, by the local monotonic clock.

        Whatever is read after its answer was written by the server later than that."""

    @property
    def is_connected(self) -> bool:
        """Whether the socket is open and greeted at present."""
        return self._ws is not None

    @property
    def received(self) -> int:
        """How many bytes have arrived over the present connection: while the number grows, the server is there."""
        return 0 if self._ws is None else self._ws.received

    async def call(
        self, op: str, fields: dict[str, Any] | None = None, *, resend: bool = True, bound: bool = False
    ) -> Any:
        """Send one request and return its `ok`.

        With `resend` the request is sent again if the connection broke before the answer came: use it only for what is
        safe to repeat. Without it, that raises `ConnectionLost`. A `bound` request belongs to the present connection:
        it fails at once if there is none, and is never sent on the next one. Raises the problem's `ProblemError`, and
        `ConnectionFailed` when no server could be reached in time.
        """
        if bound and self._ws is None:
            raise ConnectionFailed("there is no connection at the moment")
        while len(self._pending) >= MAX_PENDING and self._ended is None:
            self._room.clear()
            await self._room.wait()
        if self._ended is not None:
            # A copy, because each raise would extend the error's traceback, which keeps everything in its frames alive.
            raise copy(self._ended)
        n = self._next
        self._next += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[n] = OpenRequest({"op": op, "n": n, **(fields or {})}, future, resend, bound, monotonic())
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
        pauses = delays()
        try:
            while not self._closing:
                ws = await self._connect()
                since = monotonic()
                await self._serve(ws)
                if monotonic() - since >= STEADY:
                    pauses = delays()
                elif not self._closing:
                    await asyncio.sleep(min(next(pauses), STEADY))
        except TreadleError as error:
            self._end(error)
        except asyncio.CancelledError:
            if not self._closing:
                raise
        finally:
            self._end(ConnectionFailed("the session was closed"))

    def drop(self) -> None:
        """Break the connection, whose other end doesn't answer, and reconnect; not while a large frame is arriving."""
        if self._ws is not None and not self._ws.is_busy:
            self._ws.transport.abort()

    async def close(self) -> None:
        """Close the connection and fail all unanswered requests."""
        self._closing = True
        self._end(ConnectionFailed("the session was closed"))
        if self._ws is not None:
            await self._ws.close()
        elif self._running is not None:
            # It is connecting, or waiting for the next attempt.
            self._running.cancel()

    async def _connect(self) -> Connection:
        since = monotonic()
        patience = self._first_patience if self.hello is None else self._patience
        # A client that fails at once raises the error, so there is nothing to log.
        waits = QuietLog(log, level=logging.WARNING if patience > 0 else logging.DEBUG)
        limit = FIRST_OPENING if len(self._urls) > 1 else None
        for delay in delays():
            error = await self._round(limit)
            if isinstance(error, Connection):
                return error
            if is_plain := isinstance(error, SocketRefused):
                # From now on plain HTTP serves requests, and one address that hangs must not keep the session from the
                # others.
                limit = max(2.5, ROUND / len(self._urls))
            waits.say(error, self._refusals.then if isinstance(error, Unauthorized) else "trying again")
            left = since + patience - monotonic()
            if is_plain or left <= 0:
                self._fail(error)
            await asyncio.sleep(min(delay, left) if left > 0 else delay)
        raise AssertionError("the delays never end")

    async def _round(self, limit: float | None) -> Connection | TreadleError:
        """Try each address once, for `limit` seconds; return the connection, or the errors of all as one.

        Raises the refusal of a server, when no other one opened.
        """
        errors: list[ConnectionFailed] = []
        refusal: TreadleError | None = None
        for url in list(self._urls):
            # The next attempt, or the next connection, begins with another server.
            self._urls.append(self._urls.pop(0))
            try:
                async with asyncio.timeout(limit):
                    ws, self.hello = await self._dial(url)
            except ConnectionFailed as failed:
                errors.append(failed)
            except TimeoutError:
                late = f"{url} opened no session within {in_seconds(limit or OPENING)}"
                errors.append(SocketRefused(late, is_silent=True))
            except (ProblemError, ProtocolMismatch) as refused:
                refusal = refused
            except Exception as odd:  # noqa: BLE001 - an address that can't even be tried must not end the others' turn
                errors.append(ConnectionFailed(f"{url} can't be tried ({type(odd).__name__}: {odd})"))
            else:
                return ws
        if refusal is None:
            return as_one(errors)
        if self._is_final(refusal):
            raise refusal
        return refusal

    def _is_final(self, refusal: TreadleError) -> bool:
        return not isinstance(refusal, Unauthorized) or self._refusals.is_final()

    async def _dial(self, url: str) -> tuple[Connection, dict[str, Any]]:
        """Try the ways to one server, with the present token; raises as `dial` does."""
        own = self._bearer.own()
        try:
            return await self._dial_by(await self._bearer.ways(url))
        except Unauthorized:
            # A server that starts for the first time accepts connections before it has written its token, and answers
            # them after that.
            if self._bearer.own() == own:
                raise
        return await self._dial_by(await self._bearer.ways(url))

    async def _dial_by(self, ways: list[Way]) -> tuple[Connection, dict[str, Any]]:
        error: TreadleError = ConnectionFailed("the server can't be reached")
        for way in ways:
            try:
                return await dial(way, self._client)
            except ConnectionFailed as failed:
                error = better(error, failed)
        raise error

    async def _serve(self, ws: Connection) -> None:
        odd: SocketRefused | None = None
        self._ws = ws
        self._outbox = sorted(self._pending)
        self._wake.set()
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [group.create_task(work) for work in (self._write(ws), self._watch(ws))]
                if self._on_connect is not None:
                    helpers.append(group.create_task(self._on_connect()))
                await self._read(ws)
                for helper in helpers:
                    helper.cancel()
        except* ConnectionFailed as strange:
            odd = SocketRefused(str(strange.exceptions[0]))
            self._odd.say(odd, "reconnecting")
            self._odd_in_turn += 1
        except* Exception:
            # A bug, or a server that doesn't follow the protocol: reconnecting is better than ending the client.
            log.exception("giving up the session's connection and reconnecting")
        finally:
            self._ws = None
            if self._on_disconnect is not None:
                self._on_disconnect()
            await ws.close()
        fatal = close_error(ws)
        if fatal is not None and not self._closing and self._is_final(fatal):
            raise fatal
        self._lose(too_large=ws.close_code == 1009)
        if odd is not None and self._odd_in_turn > 1:
            # The next connection will probably do the same, so requests that plain HTTP can make do not wait for it.
            self._fail(odd)

    async def _read(self, ws: Connection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                frame = await ws.next_frame()
                with reading():
                    for item in items_of(frame):
                        if (n := item.get("re")) is not None:
                            self._answer(n, item)
                        elif "push" in item:
                            self._on_push(item)
                self._odd_in_turn = 0

    def _answer(self, n: int, item: dict[str, Any]) -> None:
        request = self._pending.get(n)
        if request is None or request.future.done():
            return
        self._answered_at = monotonic()
        self.heard = max(self.heard, request.asked)
        if "ok" in item:
            request.future.set_result(item["ok"])
        else:
            request.future.set_exception(error_for(problem_of(item.get("problem"))))

    async def _write(self, ws: Connection) -> None:
        # Every coroutine that made a request in one turn of the loop has added its item before this task wakes.
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._wake.wait()
                self._wake.clear()
                numbers, self._outbox = self._outbox, []
                for frame in self._frames(numbers):
                    await ws.send(frame, text=True)

    async def _watch(self, ws: Connection) -> None:
        """Break a connection over which nothing comes any more, or not the answer to a request."""
        while not ws.is_silent:
            until = self.heard if monotonic() - self._answered_at < LONGEST else monotonic()
            is_overdue = any(one.due <= until and not one.future.done() for one in self._pending.values())
            if is_overdue and not (ws.is_busy or ws.transport.get_write_buffer_size()):
                break
            await asyncio.sleep(LOOKS)
        ws.transport.abort()

    def _frames(self, numbers: list[int]) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for n in numbers:
            request = self._pending.get(n)
            if request is None or request.future.done():
                continue
            try:
                part = encoded(without(request.item) if is_older(self.hello) else request.item)
            except InvalidArguments as error:
                request.future.set_exception(error)
                continue
            most = self._most_bytes()
            if len(part) > most:
                request.future.set_exception(oversized(f"{len(part)} bytes, more than {most}"))
                continue
            if has_too_many(part):
                request.future.set_exception(oversized(f"more than {MOST_VALUES} values"))
                continue
            request.mark_sent()
            if parts and size + len(part) > min(FULL_FRAME, most):
                yield b'{"items":[' + b",".join(parts) + b"]}"
                parts, size = [], 0
            parts.append(part)
            size += len(part) + 1
        if parts:
            yield b'{"items":[' + b",".join(parts) + b"]}"

    def _most_bytes(self) -> int:
        """Return the most bytes of a request: the server's limit for a frame, less what surrounds the request."""
        told: int = (self.hello or {}).get("max_bytes", MAX_FRAME)
        return min(told, MAX_FRAME) - FRAME_OVERHEAD

    def _lose(self, *, too_large: bool) -> None:
        """Fail the requests that were sent over the broken connection and may not be sent again."""
        for request in self._pending.values():
            if request.future.done() or not (request.sent or request.bound):
                continue
            if too_large:
                request.future.set_exception(oversized("more than the server takes"))
            elif request.is_lost(self._patience):
                request.future.set_exception(ConnectionLost(LOST))

    def _fail(self, error: TreadleError) -> None:
        for request in list(self._pending.values()):
            if not request.future.done():
                # Whatever ended the session: a request that was sent may have been carried out, or still be.
                is_lost = request.sent and not request.resend
                request.future.set_exception(ConnectionLost(LOST) if is_lost else copy(error))
        if self._on_down is not None:
            self._on_down(error)

    def _end(self, error: TreadleError) -> None:
        if self._ended is None:
            self._ended = error
            self._fail(error)
            self._room.set()
