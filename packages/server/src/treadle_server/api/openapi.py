"""The OpenAPI 3.1 document, made from the table of endpoints and the wire models."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from treadle.wire.fields import LONGEST_TEXT
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Every, Frame, Hello, Unwatch, Watch
from treadle.wire.operations import SIGNED
from treadle.wire.pages import MOST_OF_PAGE
from treadle.wire.problems import PROBLEMS, Problem
from treadle.wire.reasons import ID_BEGINNING
from treadle.wire.runs import Claim, Report
from treadle.wire.tasks import Receipt
from treadle.wire.webhooks import DeliveryState
from treadle_server import __version__
from treadle_server.api.endpoint import Endpoint

ALWAYS = ("validation-error", "store-unavailable")
GUARDED = ("unauthorized", "forbidden", "too-many-requests")
"""The problems of routes that need a token: an invalid token, too few scopes, too many invalid tokens."""
UNREAD = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
          HTTPStatus.SERVICE_UNAVAILABLE)  # fmt: skip
"""What a connection answers to a request that reaches no route (`serving.connections`)."""
_SESSION: tuple[type[BaseModel], ...] = (Frame, Hello, Watch, Unwatch, Every, Report)
_ANSWERS: tuple[type[BaseModel], ...] = (Problem, Claim, Receipt)
"""Models of answers and pushes that are not a route's own answer."""
_QUERY: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 0, "maximum": MOST_OF_PAGE},
    "offset": {"type": "integer", "minimum": 0},
    "held": {"type": "boolean"},
    "run": {"type": "integer", "minimum": 0},
    "state": {"type": "string", "enum": list(get_args(DeliveryState)), "default": "dead"},
    "id": {"type": "string", "pattern": ID_BEGINNING},
}
"""Query parameters that are not plain text."""

_HEADERS: dict[str, list[dict[str, Any]]] = {
    "get": [{"name": "Prefer", "description": "`wait=N`: answer when the task is over, or after N seconds."}],
    "claim": [
        {
            "name": "Idempotency-Key",
            "description": "A key of your choice: send the request again with it if the answer was lost.",
            "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT, "pattern": "^[ -~]+$"},
        }
    ],
    "get_artifact": [
        {"name": "Range", "description": "One part of the bytes, such as `bytes=0-99`."},
        {"name": "If-Range", "description": "The ETag of the bytes that `Range` refers to."},
        {"name": "If-None-Match", "description": "The ETag of the bytes that the client has."},
    ],
}
"""The request headers of an operation, by its name."""

_TEXT = {"type": "string"}
_ANSWERED: dict[str, dict[str, Any]] = {
    "Location": {"description": "The URL of the resource.", "schema": _TEXT},
    "Retry-After": {"description": "Seconds to wait before asking again.", "schema": {"type": "integer"}},
    "WWW-Authenticate": {"description": "How to send a token.", "schema": _TEXT},
    "Preference-Applied": {"description": "The part of `Prefer` that was applied.", "schema": _TEXT},
    "ETag": {"description": "The SHA-256 of the bytes.", "schema": _TEXT},
    "Content-Range": {"description": "Which bytes these are, and how many there are in all.", "schema": _TEXT},
}
"""Response headers, by name."""

_OF_STATUS: dict[int, list[str]] = {
    206: ["Content-Range"], 303: ["Location"], 401: ["WWW-Authenticate"], 416: ["Content-Range"],
    429: ["Retry-After"], 503: ["Retry-After"],
}  # fmt: skip
"""The response headers of a status, for every operation."""

_OF_OPERATION: dict[tuple[str, int], list[str]] = {
    ("submit_one", 200): ["Location"],
    ("submit_one", 202): ["Location", "Retry-After"],
    ("submit", 202): ["Retry-After"],
    ("run_schedule", 202): ["Location", "Retry-After"],
    ("open", 201): ["Location"],
    ("get", 200): ["Preference-Applied"],
    ("get_artifact", 200): ["ETag"],
    ("get_artifact", 206): ["ETag"],
    ("get_artifact", 304): ["ETag"],
}
"""Further response headers, by operation and status."""

Schemas = Mapping[Any, dict[str, Any]]
"""References to schemas, by (model, mode)."""


def document(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    """Return the OpenAPI document of the endpoints."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in _SESSION]
    models += [(model, "serialization") for model in _ANSWERS]
    models += [(e.body, "validation") for e in endpoints if e.body is not None]
    models += [(e.answer, "serialization") for e in endpoints if e.answer is not None]
    schemas, definitions = models_json_schema(list(dict.fromkeys(models)), ref_template="#/components/schemas/{model}")
    filters = definitions["$defs"][TaskFilter.__name__]["properties"]
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        path = paths.setdefault(re.sub(r":\w+}", "}", endpoint.path), {})
        path[endpoint.method.lower()] = _operation(endpoint, schemas, filters)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Treadle", "version": __version__, "description": "A durable task queue."},
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(endpoint: Endpoint, schemas: Schemas, filters: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": _parameters(endpoint, filters),
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": schemas[endpoint.body, "validation"]}}
        operation["requestBody"] = {"content": content, "required": not endpoint.body_optional}
    if endpoint.streams:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        said = "The bytes, with the Content-Type that was announced."
        operation["requestBody"] = {"content": content, "required": True, "description": said}
    if endpoint.permission.is_open:
        operation["security"] = []
    else:
        operation["description"] = f"Needs {endpoint.permission.value}."
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"[a-z_]+", re.sub(r":\w+}", "}", endpoint.path.replace("/v1/", "/")))
    version = "v1_" if endpoint.path.startswith("/v1/") and words[-1] in {"healthz", "readyz"} else ""
    return f"{endpoint.method.lower()}_{version}{'_'.join(words)}"


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if kind == "int" else "string"}}
        for name, kind in re.findall(r"{(\w+):?(\w*)}", path)
    ]


def _parameters(endpoint: Endpoint, filters: dict[str, Any]) -> list[dict[str, Any]]:
    found = _path_parameters(endpoint.path)
    for name in endpoint.query:
        schema = _QUERY.get(name, {"type": "string"})
        if name == "limit":
            schema = {**schema, "default": endpoint.per_page}
        elif "cursor" in endpoint.query and name in filters:
            # Several values are given by repeating the parameter; null is given by leaving it out.
            [schema] = [given for given in filters[name]["anyOf"] if given != {"type": "null"}]
        found.append({"name": name, "in": "query", "required": name in SIGNED, "schema": schema})
    headers = _HEADERS.get(endpoint.name, [])
    return [*found, *({"in": "header", "required": False, "schema": _TEXT, **header} for header in headers)]


def _responses(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in sorted({endpoint.status, *endpoint.also}):
        found[str(status)] = {"description": HTTPStatus(status).phrase}
        if endpoint.answer is not None:
            schema = schemas[endpoint.answer, "serialization"]
            found[str(status)]["content"] = {"application/json": {"schema": schema}}
    names = [*endpoint.problems, *ALWAYS] + ([] if endpoint.permission.is_open else list(GUARDED))
    if endpoint.body is not None:
        names.append("payload-too-large")
    for name in sorted(set(names), key=lambda name: (PROBLEMS[name].status, name)):
        kind = PROBLEMS[name]
        said = found.setdefault(str(kind.status), {"description": kind.title})
        if kind.title not in said["description"]:
            said["description"] += f"; {kind.title}"
        content = said.setdefault("content", {})
        content["application/problem+json"] = {"schema": schemas[Problem, "serialization"]}
    for unread in UNREAD:
        said = found.setdefault(str(int(unread)), {"description": unread.phrase})
        said.setdefault("content", {})["application/problem+json"] = {"schema": schemas[Problem, "serialization"]}
    for code, said in found.items():
        names = [*_OF_STATUS.get(int(code), []), *_OF_OPERATION.get((endpoint.name, int(code)), [])]
        if names:
            said["headers"] = {name: _ANSWERED[name] for name in names}
    return found
