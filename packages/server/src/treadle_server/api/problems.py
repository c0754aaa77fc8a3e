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
"""Matches a path with something before the route: the server's address, or a proxy's, has a path of its own."""


def problem_response(
    error: TreadleError, request: HTTPConnection, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the error as an answer: its problem, its status, and `Retry-After` if it has one."""
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
    """Answer what the router itself refuses as a problem: an unknown route, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    headers = error.headers or {}
    refused: TreadleError
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("Allow", "")
        refused = MethodNotAllowed(f"{request.method} is not allowed on {request.url.path}; use {allowed}")
    elif error.status_code == HTTPStatus.NOT_FOUND:
        refused = NoSuchRoute(f"there is no route {request.url.path}{_why_no_route(request)}")
    else:
        refused = ValidationFailed(error.detail)
    return problem_response(refused, request, headers)


def _why_no_route(request: Request) -> str:
    if (found := _BEFORE.match(request.url.path)) is not None:
        whence = "from a proxy or the server's address (TREADLE_URL)"
        return f": routes begin with /v1, but {found[1]} comes before it, {whence}"
    # A slash separates the parts of a path, so a name can't contain it, not even percent-encoded.
    return ": a name in a path can't contain '/'" if b"%2f" in request.scope.get("raw_path", b"").lower() else ""


async def on_refused_upgrade(socket: HTTPConnection, error: Exception) -> None:
    """Answer a refused upgrade with a problem: otherwise the client would see only a status."""
    assert isinstance(socket, WebSocket)
    assert isinstance(error, TreadleError)
    await socket.send_denial_response(problem_response(error, socket))


async def no_socket_there(socket: WebSocket) -> None:
    """Refuse a websocket on any other path. Raises `NoSuchRoute`."""
    raise NoSuchRoute(f"there is no websocket at {socket.url.path}: open sessions at {SESSION}")


async def no_upgrade(request: Request) -> Response:
    """Answer a plain request on the websocket's route: it lacks the upgrade."""
    error = UpgradeRequired(
        f"{SESSION} is a websocket, but the request does not ask for one: a proxy must pass on Upgrade and Connection"
    )
    return problem_response(error, request, {"Upgrade": "websocket", "Connection": "Upgrade"})


def page(kind: ProblemType) -> Response:
    """Return the page that explains a problem type."""
    title, text = html.escape(kind.title), html.escape(kind.explanation)
    return HTMLResponse(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<h1>{title}</h1><p><code>{kind.name}</code>, status {kind.status}</p><p>{text}</p></html>"
    )
