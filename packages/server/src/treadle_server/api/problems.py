"""Errors as RFC 9457 problems, and the pages that explain them."""

import html
import math
from http import HTTPStatus
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from treadle.wire.names import InvalidRoom
from treadle.wire.problems import PROBLEMS, ProblemType
from treadle.wire.values import BadValue, Fault, below
from treadle_server.errors import InvalidRoomId, TreadleError, Unauthorized, ValidationFailed

MEDIA_TYPE = "application/problem+json"
_MOST_ERRORS = 20
_LONGEST = 500


def from_validation(error: ValidationError) -> InvalidRoomId | ValidationFailed:
    """Return pydantic's findings as a problem: where and what, without the values; a room that is none is its own."""
    for item in error.errors(include_url=False, include_input=False):
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, InvalidRoom):
            return InvalidRoomId(str(cause))
        if isinstance(cause, BadValue):
            return bad_value(below(item["loc"], cause.fault))
    found = [
        {"loc": [_sendable(str(part)) for part in item["loc"]], "msg": _sendable(item["msg"]), "type": item["type"]}
        for item in error.errors(include_url=False, include_context=False, include_input=False)[:_MOST_ERRORS]
    ]
    first = found[0]
    place = ".".join(first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    message = f"{place}: {first['msg']}" if place else str(first["msg"])
    return ValidationFailed(message[:_LONGEST] + more, errors=found)


def bad_value(found: Fault) -> ValidationFailed:
    """Return the problem of a value that can't be kept."""
    return ValidationFailed(str(found), errors=[{"loc": [found.place], "msg": found.why, "type": "bad_value"}])


def problem_body(error: TreadleError, instance: str | None = None) -> dict[str, Any]:
    """Return the problem's members; text that can't be sent as UTF-8 is replaced."""
    body = error.as_problem()
    body["detail"] = _sendable(error.detail)
    if instance is not None:
        body["instance"] = _sendable(instance)
    return body


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def problem_response(error: TreadleError, request: Request) -> Response:
    """Return the answer that says what went wrong."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    body = problem_body(error, request.url.path)
    return Response(orjson.dumps(body, default=str), error.type.status, headers, MEDIA_TYPE)


def _named(kind: ProblemType, detail: str, request: Request, headers: dict[str, str] | None = None) -> Response:
    body = {
        "type": kind.uri,
        "title": kind.title,
        "status": kind.status,
        "detail": _sendable(detail),
        "instance": _sendable(request.url.path),
    }
    return Response(orjson.dumps(body), kind.status, headers, MEDIA_TYPE)


def defect(request: Request) -> Response:
    """Return the answer to a request that the server failed at: 500."""
    return _named(PROBLEMS["internal-server-error"], "the server failed; its log has the traceback", request)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Say as a problem what the router itself refuses: no such route, or not with this method."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("Allow", "")
        detail = f"{request.method} is not a method of {request.url.path}; use {allowed}"
        return _named(PROBLEMS["method-not-allowed"], detail, request, headers)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return _named(PROBLEMS["not-found"], f"there is no route {request.url.path}", request, headers)
    return _named(PROBLEMS["validation-error"], error.detail, request, headers)


def page(kind: ProblemType) -> Response:
    """Return the page that explains a problem type."""
    title, text = html.escape(kind.title), html.escape(kind.explanation)
    return HTMLResponse(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<h1>{title}</h1><p><code>{kind.name}</code>, status {kind.status}</p><p>{text}</p></html>"
    )
