"""How a session is opened: which server is tried when, and what each refusal means."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from treadle.errors import (
    ConnectionFailed,
    ProtocolMismatch,
    SocketRefused,
    TreadleError,
    Unauthorized,
    error_for,
    problem_named,
)
from treadle.reaching import is_loopback, unreachable
from treadle.wire.frames import PROTOCOL
from treadle.wire.problems import Problem

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of one frame at most, either way."""

_OPEN_TIMEOUT = 10.0
_DOWN = frozenset({429, 500, 502, 503, 504})


async def dial(url: str, token: str | None, client: str | None) -> tuple[ClientConnection, dict[str, Any]]:
    """Open a socket at one server and greet; return it with what the server said of itself.

    Raises `Unauthorized` and `ProtocolMismatch`, which no further try mends, `SocketRefused` when the server or a
    proxy answers without opening a websocket, and `ConnectionFailed` when nobody answers, or not now.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
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
        raise ConnectionFailed(unreachable(url, error)) from None
    except WebSocketException as error:
        raise SocketRefused(f"{url} opens no websocket: {error}") from None
    try:
        return ws, await _greet(ws, client)
    except (ConnectionClosed, TimeoutError):
        fatal = close_error(ws)
        raise fatal or ConnectionFailed(f"{url} closed the connection before it greeted: try again") from None
    except BaseException:
        await ws.close()
        raise


async def _greet(ws: ClientConnection, client: str | None) -> dict[str, Any]:
    hello: dict[str, Any] = {"op": "hello", "n": 0, "protocol": PROTOCOL}
    if client is not None:
        hello["client"] = client
    await ws.send(to_json({"items": [hello]}), text=True)
    async with asyncio.timeout(_OPEN_TIMEOUT):
        message = await ws.recv()
    for item in items_of(message):
        if item.get("re") == 0:
            if "problem" in item:
                raise error_for(problem_of(item["problem"]))
            greeting: dict[str, Any] = item["ok"]
            return greeting
    raise ProtocolMismatch(f"the server's first frame answers no hello: {message[:200]!r}")


def items_of(message: str | bytes) -> list[dict[str, Any]]:
    """Return the items of a frame; raise `ProtocolMismatch`."""
    try:
        items: list[dict[str, Any]] = from_json(message)["items"]
    except (ValueError, KeyError, TypeError):
        raise ProtocolMismatch(f"the server sent what is no frame: {message[:200]!r}") from None
    return items


def problem_of(body: object) -> Problem:
    """Return a problem as it came, or one that says that it can't be read."""
    try:
        return Problem.model_validate(body)
    except ValidationError:
        return problem_named("internal-server-error", f"the server's problem can't be read: {body!r}")


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


def close_error(ws: ClientConnection) -> TreadleError | None:
    """Return the error that a close code stands for; None when connecting again may help."""
    reason = ws.close_reason or "no reason given"
    if ws.close_code == 4401:
        return Unauthorized(problem_named("unauthorized", f"{reason}; set TREADLE_TOKEN to a valid token"))
    if ws.close_code == 4400:
        return ProtocolMismatch(f"the server refused a frame: {reason}; are its version and this one's compatible?")
    return None
