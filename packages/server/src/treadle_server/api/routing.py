"""Makes routes of the table of endpoints: each authenticates, validates, calls the handler and answers errors."""

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, StringConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.wire.filters import SEVERAL
from treadle.wire.log_lines import bound
from treadle_server.access.principal import Principal
from treadle_server.access.tokens import address_of, bearer
from treadle_server.access.trust import trust
from treadle_server.api.body import Body
from treadle_server.api.call import Call
from treadle_server.api.connected import ClientGone
from treadle_server.api.endpoint import Endpoint
from treadle_server.api.problems import problem_response
from treadle_server.authorization.authorization import check_row, check_user
from treadle_server.authorization.narrowing import narrowed
from treadle_server.engine.commands.jobs import check_room
from treadle_server.errors import NoSuchRoute, TreadleError, ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext, task_id_of, worker_id_of
from treadle_server.operations.parsing import LARGE, NotJson, parse
from treadle_server.operations.values import run_number
from treadle_server.store.reader_shares import asking

log = logging.getLogger(__name__)

NOBODY = Principal("")
"""The principal of requests that need no token."""

CLIENT_CLOSED_REQUEST = 499
"""The status of a request whose client has left; nobody receives it."""


def routes(endpoints: Iterable[Endpoint], ctx: OperationContext) -> list[Route]:
    """Return one route for each path with all of its methods, so that a 405 can name them."""
    register_url_convertor("room", _RoomConvertor())
    register_url_convertor("run", _RunConvertor())
    register_url_convertor("path", _TextConvertor())
    by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for endpoint in endpoints:
        by_path[endpoint.path][endpoint.method] = endpoint
    return [
        Route(_converted(path), _dispatch(of_path, ctx), methods=list(of_path)) for path, of_path in by_path.items()
    ]


class _RoomConvertor(StringConvertor):
    """A room in a path, which may be empty: then it is refused as a room, not as an unknown path."""

    regex = "[^/]*"


class _TextConvertor(StringConvertor):
    """The rest of a path, newlines included: a step may wait for a message whose name has several lines."""

    regex = "(?s:.*)"


class _RunConvertor(Convertor[int]):
    """A run's number of any length: Python refuses to parse more than 4,300 digits."""

    regex = "[0-9]+"

    def convert(self, value: str) -> int:
        digits = value.lstrip("0")
        # Longer numbers are all refused alike.
        return int(digits[:_MOST_DIGITS] or "0")

    def to_string(self, value: int) -> str:
        return str(value)


_MOST_DIGITS = 20
"""A number with so many digits has more than 64 bits."""


def _converted(path: str) -> str:
    return path.replace("{room}", "{room:room}").replace("{run_id:int}", "{run_id:run}")


def _dispatch(of_path: dict[str, Endpoint], ctx: OperationContext) -> Callable[[Request], Awaitable[Response]]:
    async def dispatch(request: Request) -> Response:
        endpoint = of_path["GET" if request.method == "HEAD" else request.method]
        with bound(request=next(_requests), **_named_by(request)):
            try:
                return await _serve(endpoint, request, ctx)
            except TreadleError as error:
                return problem_response(error, request)
            except (ClientGone, ClientDisconnect):
                return Response(status_code=CLIENT_CLOSED_REQUEST)
            except Exception:
                log.exception("%s %s failed", request.method, request.url.path)
                return problem_response(TreadleError("the server failed; its log has the traceback"), request)

    return dispatch


_requests = itertools.count(1)
_PARTS = {"task_id": "task", "run_id": "run", "worker_id": "worker"}


def _named_by(request: Request) -> dict[str, Any]:
    """Return the ids in the path, by their field names in the log."""
    parts = request.path_params
    return {name: parts[part] for part, name in _PARTS.items() if part in parts}


async def _serve(endpoint: Endpoint, request: Request, ctx: OperationContext) -> Response:
    _check_path(request)
    principal = NOBODY if endpoint.permission.is_open else await _principal(endpoint, request, ctx)
    parts = request.path_params
    if (room := parts.get("room")) is not None:
        # Here, so that every route with a room refuses a wrong one before it looks at the body (Z2).
        check_room(room)
    check_user(endpoint.permission, principal, room=room, job=parts.get("job_name"))
    _check_query(endpoint, request)
    with asking(principal.user), Body(ctx.arriving) as body:
        if principal.scopes is not None:
            await _check_row(endpoint, request, ctx, principal)
        given = await _given(endpoint, request, ctx, body)
        return await endpoint.handler(Call(request, ctx, principal, given, endpoint.per_page))


async def _principal(endpoint: Endpoint, request: Request, ctx: OperationContext) -> Principal:
    """Return the principal of the request, narrowed to the scopes that its header names.

    Raises `Unauthorized`, `TooManyRequests`, `Forbidden`, `ValidationFailed` or `StoreUnavailable`.
    """
    ctx.access.check_page(request.headers)
    token, address = bearer(request.headers), address_of(request)
    principal = await ctx.access.identify(token, address, of_run=endpoint.permission.of_run, late=endpoint.late)
    trust(request.scope)
    return narrowed(principal, request.headers)


async def _check_row(endpoint: Endpoint, request: Request, ctx: OperationContext, principal: Principal) -> None:
    parts = request.path_params
    await check_row(
        ctx.engine.store,
        endpoint.permission,
        principal,
        task_id=task_id_of(parts["task_id"]) if "task_id" in parts else None,
        run_id=run_number(parts["run_id"]) if "run_id" in parts else None,
        worker_id=worker_id_of(parts["worker_id"]) if "worker_id" in parts else None,
    )


def _check_query(endpoint: Endpoint, request: Request) -> None:
    """Refuse unknown, empty and repeated parameters: a misspelt or empty filter would show everything.

    Routes without a token, such as probes and pages, accept any query.
    """
    query = request.query_params
    if not query or endpoint.permission.is_open:
        return
    if unknown := query.keys() - set(endpoint.query):
        known = ", ".join(endpoint.query) or "none"
        raise ValidationFailed(f"{', '.join(sorted(unknown))[:200]}: unknown parameter; this route takes: {known}")
    single = query.keys() - SEVERAL - {"status"}
    if twice := {name for name in single if len(query.getlist(name)) > 1}:
        raise ValidationFailed(f"{', '.join(sorted(twice))}: given more than once; it takes one value")
    if empty := {name for name in single if not query[name]}:
        raise ValidationFailed(f"{', '.join(sorted(empty))}: is empty; give a value, or leave it out")
    if not _is_text(unquote_to_bytes(request.scope["query_string"])):
        raise ValidationFailed("the query is not valid UTF-8")


def _check_path(request: Request) -> None:
    """Refuse a path with a NUL or invalid UTF-8, which databases can't compare."""
    raw = request.scope.get("raw_path") or b""
    if b"%" not in raw and raw.isascii():
        return
    # The raw path: in the decoded one invalid UTF-8 is replaced, so that different names become equal.
    if b"\0" in (sent := unquote_to_bytes(raw)) or not _is_text(sent):
        raise NoSuchRoute("the path contains a NUL character or is not valid UTF-8")


def _is_text(sent: bytes) -> bool:
    try:
        sent.decode()
    except UnicodeDecodeError:
        return False
    return True


async def _given(endpoint: Endpoint, request: Request, ctx: OperationContext, body: Body) -> Any:
    if endpoint.method in {"GET", "DELETE"} or endpoint.streams:
        return None
    raw = await body.read(request, ctx.settings.max_body_bytes)
    if endpoint.body is None:
        return None
    if not raw.strip():
        if not endpoint.body_optional:
            raise ValidationFailed(f"the body is empty: send a {endpoint.body.__name__} as JSON")
        return values.validate(endpoint.body, {})
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise ValidationFailed(f"Content-Encoding: {coding[:40]!r} is not supported; send plain JSON")
    try:
        given = await parse(raw)
    except NotJson as error:
        raise ValidationFailed(f"the body is not JSON: {error}") from None
    if endpoint.items is not None:
        return values.outline(endpoint.items.outline, given, endpoint.items.name)
    wanted = values.validate(endpoint.body, given)
    if len(raw) > LARGE:
        # Let other requests have a turn.
        await asyncio.sleep(0)
    return wanted
