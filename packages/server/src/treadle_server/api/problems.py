"""Problems as answers over HTTP, and the pages that explain them."""

import html
import math
import re
from collections.abc import Mapping
from http import HTTPStatus

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.websockets import WebSocket

from treadle.wire.problems import ProblemType
from treadle_server.errors import (
    MethodNotAllowed,
    NoSuchRoute,
    RangeNotSatisfiable,
    TreadleError,
    Unauthorized,
    UpgradeRequired,
    ValidationFailed,
)
from treadle_server.operations.problems import problem_body

MEDIA_TYPE = "application/problem+json"

SESSION = "/v1/session"
"""Where sessions are opened."""

_BEFORE = re.compile(r"(/v1|(?!/v1/).+?)/v1/")
"""What stands before a route, in the path of a request that was sent to an address with a path of its own."""


def problem_response(
    error: TreadleError, request: HTTPConnection, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer that says what went wrong: the problem, its status, and `Retry-After` if it has one."""
    headers = dict(headers or {})
    if error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    body = problem_body(error, request.url.path)
    return Response(orjson.dumps(body, default=str), error.type.status, headers, MEDIA_TYPE)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Say as a problem what the router itself refuses: no such route, or not with this method."""
    assert isinstance(error, HTTPException)
    headers = error.headers or {}
    refused: TreadleError
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("Allow", "")
        refused = MethodNotAllowed(f"{request.method} is not a method of {request.url.path}; use {allowed}")
    elif error.status_code == HTTPStatus.NOT_FOUND:
        refused = NoSuchRoute(f"there is no route {request.url.path}{_why_no_route(request)}")
    else:
        refused = ValidationFailed(error.detail)
    return problem_response(refused, request, headers)


def _why_no_route(request: Request) -> str:
    if (found := _BEFORE.match(request.url.path)) is not None:
        whence = "from a proxy or the server's address (TREADLE_URL)"
        return f": routes begin with /v1, and {found[1]} stands before it, {whence}"
    # What a path is parted by may stand in no name of it, not percent-encoded either.
    return ": a name in a path holds no '/'" if b"%2f" in request.scope.get("raw_path", b"").lower() else ""


async def on_refused_upgrade(socket: HTTPConnection, error: Exception) -> None:
    """Say as a problem why there is no socket: without it a client would see a status alone."""
    assert isinstance(socket, WebSocket)
    assert isinstance(error, TreadleError)
    await socket.send_denial_response(problem_response(error, socket))


async def no_socket_there(socket: WebSocket) -> None:
    """Refuse to open a socket where there is none. Raises `NoSuchRoute`."""
    raise NoSuchRoute(f"there is no socket at {socket.url.path}: sessions are opened at {SESSION}")


async def no_upgrade(request: Request) -> Response:
    """Say what a request lacks that comes to the socket's route, and asks for no socket."""
    error = UpgradeRequired(
        f"{SESSION} is a websocket, and this request does not ask for one: a proxy must pass Upgrade and Connection on"
    )
    return problem_response(error, request, {"Upgrade": "websocket", "Connection": "Upgrade"})


def page(kind: ProblemType) -> Response:
    """Return the page that explains a problem type."""
    title, text = html.escape(kind.title), html.escape(kind.explanation)
    return HTMLResponse(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<h1>{title}</h1><p><code>{kind.name}</code>, status {kind.status}</p><p>{text}</p></html>"
    )
