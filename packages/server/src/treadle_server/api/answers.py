"""Answers over HTTP: JSON, with a status and headers."""

from typing import Any

from starlette.responses import Response

from treadle_server.operations.encode import dumps


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return the value, anything that `dumps` accepts, as a JSON answer."""
    return Response(dumps(value), status, headers, "application/json")
