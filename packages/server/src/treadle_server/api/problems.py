"""Problems as answers over HTTP, and the pages that explain them."""

import html
import math
from collections.abc import Mapping
from http import HTTPStatus

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from treadle.wire.problems import ProblemType
from treadle_server.errors import (
    MethodNotAllowed,
    NoSuchRoute,
    RangeNotSatisfiable,
    TreadleError,
    Unauthorized,
    ValidationFailed,
)
from treadle_server.operations.problems import problem_body

MEDIA_TYPE = "application/problem+json"


def problem_response(error: TreadleError, request: Request, headers: Mapping[str, str] | None = None) -> Response:
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
        # What a path is parted by may stand in no name of it, not percent-encoded either.
        parts = b"%2f" in request.scope.get("raw_path", b"").lower()
        refused = NoSuchRoute(
            f"there is no route {request.url.path}" + (": a name in a path holds no '/'" if parts else "")
        )
    else:
        refused = ValidationFailed(error.detail)
    return problem_response(refused, request, headers)


def page(kind: ProblemType) -> Response:
    """Return the page that explains a problem type."""
    title, text = html.escape(kind.title), html.escape(kind.explanation)
    return HTMLResponse(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<h1>{title}</h1><p><code>{kind.name}</code>, status {kind.status}</p><p>{text}</p></html>"
    )
