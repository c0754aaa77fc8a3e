"""Opening a session at one server, and what each refusal means."""

import asyncio
import math
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus, WebSocketException

from treadle.clock import monotonic
from treadle.errors import (
    NOT_NOW,
    ConnectionFailed,
    ProtocolMismatch,
    SocketRefused,
    TreadleError,
    Unauthorized,
    error_for,
    problem_named,
    problem_of,
)
from treadle.transport.addresses import BAD_REQUEST, or_tls, redirected, unreachable
from treadle.transport.bearer import Way
from treadle.transport.environment import authorities
from treadle.wire.amounts import in_seconds
from treadle.wire.frames import PROTOCOL
from treadle.wire.problems import Problem

MAX_FRAME = 16 * 1024 * 1024
"""The most bytes of a frame that is sent."""

OPENING = 10.0
"""Seconds that a server has for each step of the opening: the connection, and the greeting."""

PING = 20.0
"""Seconds between two pings."""

SILENCE = 2 * PING
"""Seconds after which a connection over which nothing comes is broken. The answer to a ping may take longer: it waits
behind a frame, which may be large, and the network slow."""

MUCH = 1000
"""At least so many bytes are a part of a frame: fewer may be answers to pings."""

ARRIVING = 5.0
"""Seconds between two parts of a frame, at most."""

_CLOSE_TIMEOUT = 2.0
"""Seconds that the other end has to close its side; if it hangs, closing goes on without it."""

_DOWN = frozenset({429, 500, 502, 503, 504})
"""Answers to the upgrade that mean: not now."""

_MOVED = frozenset({301, 302, 303, 307, 308})
"""Answers to the upgrade that mean: elsewhere."""

_LATER = frozenset({1001, 1012, 1013})
"""Close codes that mean: not now."""


class Connection(ClientConnection):
    """Counts received bytes, so that waiting behind a frame that takes long is not mistaken for silence."""

    received = 0
    """How many bytes have been received."""
    _heard_at = math.inf
    _unread = 0
    """How many bytes have been received of a frame that is not complete."""

    def data_received(self, data: bytes) -> None:
        """Count and process received bytes."""
        self.received += len(data)
        self._unread += len(data)
        self._heard_at = monotonic()
        super().data_received(data)

    async def next_frame(self) -> str | bytes:
        """Return the next frame. Raises `ConnectionClosed`."""
        frame = await self.recv()
        self._unread = 0
        return frame

    @property
    def is_busy(self) -> bool:
        """Whether an answer may be late because of a large frame that is arriving at present."""
        return self._unread >= MUCH and monotonic() - self._heard_at < ARRIVING

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come for so long that nothing will, not even the answer to a ping."""
        return monotonic() - self._heard_at >= SILENCE


class _Connect(connect):
    """Follows no redirects: what is sent to one server is not meant for another."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def dial(way: Way, client: str | None) -> tuple[Connection, dict[str, Any]]:
    """Open a socket to one server and greet it; return it with the server's greeting.

    Raises a `ProblemError` or `ProtocolMismatch` when a Treadle server refuses for good; `SocketRefused` when something
    answers but opens no websocket, breaks it off, or says nothing, so that plain HTTP may work; and `ConnectionFailed`
    when nothing answers, or not at present.
    """
    try:
        return await _dial(way, client)
    except Unauthorized as refused:
        raise way.explained(refused) from None


async def _dial(way: Way, client: str | None) -> tuple[Connection, dict[str, Any]]:
    url = way.url
    proxy = way.proxy
    options: dict[str, Any] = {} if way.address is None else {"host": way.address}
    if url.startswith("https:"):
        options["ssl"] = authorities()
    try:
        ws = await _Connect(
            f"ws{url.removeprefix('http')}/v1/session",
            additional_headers=way.headers,
            # Accept whatever the server pushes: a task comes whole, with a payload, a checkpoint and a result each of
            # which may have filled a frame when it was sent. A limit would break the connection there, again and again.
            max_size=None,
            compression=None,
            open_timeout=OPENING,
            close_timeout=_CLOSE_TIMEOUT,
            ping_interval=PING,
            ping_timeout=None,  # `is_silent` takes its place
            proxy=proxy,
            create_connection=Connection,
            **options,
        )
        assert isinstance(ws, Connection)
    except InvalidStatus as error:
        raise _refusal(url, error) from None
    except TimeoutError:
        raise SocketRefused(f"{url} did not open a websocket within {in_seconds(OPENING)}", is_silent=True) from None
    except (ConnectionResetError, BrokenPipeError) as error:
        raise SocketRefused(f"{url} did not open a websocket: {error}") from None
    except OSError as error:
        raise ConnectionFailed(unreachable(url, error, proxy)) from None
    except (WebSocketException, ImportError) as error:
        # An ImportError says what a SOCKS proxy needs.
        advice = or_tls(url) if isinstance(error, InvalidMessage) else ""
        raise SocketRefused(f"{url} did not open a websocket: {error}{advice}") from None
    try:
        return ws, await _greet(ws, client)
    except TimeoutError:
        ws.transport.abort()
        raise SocketRefused(
            f"{url} opened a websocket but did not answer the hello within {in_seconds(OPENING)}"
        ) from None
    except ConnectionClosed:
        raise close_error(ws) or _broken_off(url, ws) from None
    except BaseException:
        ws.transport.abort()
        raise


async def _greet(ws: ClientConnection, client: str | None) -> dict[str, Any]:
    hello: dict[str, Any] = {"op": "hello", "n": 0, "protocol": PROTOCOL}
    if client is not None:
        hello["client"] = client
    async with asyncio.timeout(OPENING):
        await ws.send(to_json({"items": [hello]}), text=True)
        message = await ws.recv()
    for item in items_of(message):
        if item.get("re") != 0:
            continue
        if "problem" in item:
            error = error_for(problem_of(item["problem"]))
            raise ConnectionFailed(error.problem.title) if isinstance(error, NOT_NOW) else error
        # Older servers do not say how much they take.
        if isinstance(greeting := item.get("ok"), dict) and isinstance(greeting.get("max_bytes", MAX_FRAME), int):
            return greeting
    raise SocketRefused(
        f"not a Treadle server's websocket: its first frame does not answer the hello: {message[:200]!r}"
    )


def items_of(message: str | bytes) -> list[dict[str, Any]]:
    """Return the items of a frame; raise `SocketRefused` for anything else, which no Treadle server sends."""
    try:
        items: list[dict[str, Any]] = from_json(message)["items"]
        is_frame = isinstance(items, list) and all(isinstance(item, dict) for item in items)
    except (ValueError, KeyError, TypeError):
        is_frame = False
    if not is_frame:
        raise SocketRefused(f"the websocket sent something other than a frame: {message[:200]!r}")
    return items


def _refusal(url: str, error: InvalidStatus) -> TreadleError:
    status, body = error.response.status_code, error.response.body
    if status in _MOVED and (location := error.response.headers.get("Location")) is not None:
        return SocketRefused(redirected(url, status, location))
    if status in _DOWN:
        return ConnectionFailed(f"{url} answered {status}: it is not ready, or its proxy can't reach it")
    try:
        problem = Problem.model_validate_json(body or b"")
    except ValidationError:
        advice = or_tls(url) if status == BAD_REQUEST else ""
        return SocketRefused(f"{url} answered {status} instead of opening a websocket{advice}")
    if problem.is_ours and problem.status in {401, 403}:
        return error_for(problem)
    return SocketRefused(f"{url} opens no websocket: {problem.detail or problem.title}")


def _broken_off(url: str, ws: ClientConnection) -> ConnectionFailed:
    """Return the error for a websocket that the server, or something between, closed before the greeting."""
    said = f" ({ws.close_reason})" if ws.close_reason else ""
    if ws.close_code in _LATER:
        return ConnectionFailed(f"{url} accepts no sessions at the moment{said}")
    return SocketRefused(f"{url} closed the websocket before it answered the hello{said}")


def close_error(ws: ClientConnection) -> TreadleError | None:
    """Return the error that a close code stands for; None if reconnecting may help."""
    reason = ws.close_reason or "no reason given"
    if ws.close_code == 4401:
        return Unauthorized(problem_named("unauthorized", f"{reason}; set TREADLE_TOKEN to a valid token"))
    if ws.close_code == 4400:
        return ProtocolMismatch(
            f"the server refused a frame: {reason}; check that its version is compatible with this one"
        )
    return None


def better(one: TreadleError, other: TreadleError) -> TreadleError:
    """Return the more useful error: one from a server that plain HTTP may reach, or else the later one."""
    return one if isinstance(one, SocketRefused) else other
