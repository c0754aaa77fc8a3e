"""Plain HTTP: lists, and everything that the socket does, for clients that can't open one."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
from pydantic import ValidationError
from pydantic_core import from_json

from treadle.errors import (
    ConnectionFailed,
    ConnectionLost,
    InvalidArguments,
    ProblemError,
    StoreUnavailable,
    Unauthorized,
    ValidationFailed,
    error_for,
    problem_named,
)
from treadle.transport import buckets
from treadle.transport.addresses import as_one, broken_off, redirected, shuffled, strange, through, unreachable
from treadle.transport.bearer import Bearer, TokenSource, Way, bearer_of
from treadle.transport.http_client import network_client
from treadle.transport.older_servers import refuses, without
from treadle.transport.retries import LEAST_HELD, HoldCut, QuietLog, delays, may_be_resent
from treadle.values import brief, encoded, plain_text
from treadle.wire.operations import OPERATIONS, Operation, operation_at
from treadle.wire.problems import Problem

Fields = dict[str, Any]
_Refusal = Callable[[httpx.Response], Exception]

_INSTEAD = {"submit_each": "submit", "ping": "healthz"}
"""The operations that are called differently over HTTP."""


def request_of(op: str, fields: Fields) -> tuple[str, str, Fields | None]:
    """Return method, path and body of the request that is `op` on the socket."""
    if op != "action":
        return OPERATIONS[_INSTEAD.get(op, op)].request(fields)
    return OPERATIONS[fields["action"]].request({name: value for name, value in fields.items() if name != "action"})


_NOT_REACHED = frozenset({401, 403, 404, 407, 503})
"""Statuses of a proxy that passed nothing on; after any other answer from a stranger the request may have been done."""

_TOO_LONG = frozenset({414, 431})
"""Statuses for a request whose path, parameters and headers are longer than the server, or a proxy, accepts."""

_LONG = 2_000
"""A path and parameters of more bytes than this are longer than all the headers, unless an odd token is among them."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A method, or a header's name (RFC 9110, 5.6.2)."""

_VALUE = re.compile(r"([!-~]([\t -~]*[!-~])?)?")
"""A header's value, in ASCII, because servers treat other characters differently."""

_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
"""The errors that httpx raises before any part of a request can have arrived."""

TIMEOUT = 30.0
"""Seconds for which a connection may make no progress, unless the server may hold the request."""

FIRST_TIMEOUT = 5.0
"""Seconds for which each of several servers may make no progress on a request that only reads before the next one is
tried, until one has answered: a process that was stopped still accepts connections. If all take so long, each is tried
with the usual timeout."""

HELD_MARGIN = 15.0
"""Seconds that an answer may take beyond those for which its request was held."""

_CLOSED = "the connections were closed"

log = logging.getLogger("treadle.http")


class HttpChannel:
    """Makes the requests of `Session.call` over HTTP, one each; several URLs are tried in turn.

    `patience` is for how many seconds a request is repeated while no server answers; until one has answered at all,
    `first_patience` applies (by default the same). Answers that proxies and other programs give in a server's place do
    not count.
    """

    def __init__(
        self,
        urls: tuple[str, ...],
        token: TokenSource | Bearer | None,
        *,
        patience: float = 0.0,
        first_patience: float | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._urls = shuffled(urls)
        self._patience = patience
        self._first_patience = patience if first_patience is None else first_patience
        self._has_answered = False
        self._waits = QuietLog(log)
        self._bearer = bearer_of(token)
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._is_closed = False
        self.answered_at: str | None = None
        """The `Date` header of the last answer, as its server wrote it."""

    async def close(self) -> None:
        """Close every connection; requests under way raise `ConnectionFailed` at once."""
        self._is_closed = True
        if self._client is not None:
            await self._client.aclose()

    def _open(self) -> httpx.AsyncClient:
        """Return the connections; raise `ConnectionFailed` when they are closed."""
        if self._is_closed:
            raise ConnectionFailed(_CLOSED)
        if self._client is None:
            self._client = network_client(transport=self._transport)
        return self._client

    def _request(self, way: Way, method: str, path: str, **options: Any) -> httpx.Request:
        """Build a request to the server. Raises `InvalidArguments` for a path or parameters that can't be sent."""
        if not path.startswith("/"):
            # It would become part of the host name, and the token would be sent to another host.
            raise InvalidArguments(f"{brief(path)} is not a path of the server: it must begin with /, like /v1/stats")
        headers, extensions = {**options.pop("headers", {}), **way.headers}, {}
        try:
            url = httpx.URL(way.url + path)
            if way.address is not None:
                # Connect to the address that was checked; the server and its certificate are still addressed by name.
                headers["Host"] = url.netloc.decode()
                extensions = {"sni_hostname": url.host}
                url = url.copy_with(host=way.address)
            return self._open().build_request(method, url, headers=headers, extensions=extensions, **options)
        except httpx.InvalidURL as error:
            raise InvalidArguments(f"{method} {brief(path)}: this request can't be made ({error})") from None

    async def call(self, op: str, fields: Fields | None = None, *, resend: bool = True) -> Any:
        """Make the request that is `op` on the socket, with these fields, and return its answer.

        With `resend` it is repeated if the connection broke. Raises as `request` does.
        """
        method, path, body = request_of(op, fields or {})
        return await self.request(method, path, body, resend=resend)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        resend: bool | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of the connection, not of the caller
        held: float = 0.0,
    ) -> Any:
        """Send one request and return the answer's JSON, None when it has no body.

        `resend` (the default for GET, PUT and DELETE) allows repeating it if the connection broke. The server may hold
        it for `held` seconds before it answers; if the connection breaks within that time, it raises `HoldCut`. Raises
        `ConnectionFailed`, `ConnectionLost`, `InvalidArguments` for a method, path, body, parameters or headers that
        can't be sent, and the problem's `ProblemError`.
        """
        _check_line(method, headers or {})
        again = may_be_resent(method, resend)
        options = {
            "params": _given(params),
            "headers": {**(headers or {}), **({"Content-Type": "application/json"} if body is not None else {})},
            "timeout": timeout or (held + HELD_MARGIN if held else TIMEOUT),
        }
        try:
            return await self._anywhere(method, path, options | _content(body), again=again, held=held)
        except ValidationFailed as refusal:
            if not refuses(str(refusal)):
                raise
        return await self._anywhere(method, path, options | _content(without(body)), again=again, held=held)

    async def _anywhere(self, method: str, path: str, options: dict[str, Any], *, again: bool, held: float) -> Any:
        """Send a request to the first server that answers; raises as `request` does."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        is_first = method == "GET" and not held and len(self._urls) > 1 and not self._has_answered
        for delay in delays():
            errors: list[ConnectionFailed] = []
            how = options | {"timeout": min(FIRST_TIMEOUT, options["timeout"])} if is_first else options
            stands_still = False
            for url in list(self._urls):
                asked = loop.time()
                try:
                    answer = await self._ask(url, method, path, how)
                except ConnectionLost as lost:
                    if not again:
                        raise
                    errors.append(ConnectionFailed(str(lost)))
                    stands_still = True
                except ConnectionFailed as failed:
                    errors.append(failed)
                except ProblemError as refusal:
                    self._has_answered = True
                    if isinstance(refusal, StoreUnavailable):
                        # The next request goes to another server, which may reach its database; that one is then kept.
                        self._urls.append(self._urls.pop(0))
                    raise
                else:
                    self._has_answered = True
                    self._waits.over()
                    return answer
                if self._is_closed:
                    raise ConnectionFailed(_CLOSED)
                self._urls.append(self._urls.pop(0))
                if LEAST_HELD <= (after := loop.time() - asked) < held:
                    raise HoldCut(str(errors[-1]), after)
            is_again, is_first = is_first and stands_still, False
            if is_again:
                continue
            if (left := since + (self._patience if self._has_answered else self._first_patience) - loop.time()) <= 0:
                raise as_one(errors)
            self._waits.say(as_one(errors), "trying again")
            await asyncio.sleep(min(delay, left))
        raise AssertionError("the delays never end")

    async def _ask(self, url: str, method: str, path: str, options: Mapping[str, Any]) -> Any:
        """Send a request to one server, by the first way that works; raises as `request` does."""
        error = ConnectionFailed(url)
        for way in await self._bearer.ways(url):
            try:
                response = await self._open().send(self._request(way, method, path, **options))
            except _NOT_CONNECTED as failed:
                error = ConnectionFailed(unreachable(url, failed, way.proxy))
            except httpx.RequestError as broken:
                is_new = not self._has_answered and not isinstance(broken, httpx.TimeoutException)
                raise ConnectionLost(broken_off(url, broken, way.proxy, is_new=is_new)) from None
            else:
                self.answered_at = response.headers.get("Date")
                return _answer(response, way, operation_at(method, path))
        raise error

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[tuple[httpx.Response, str]]:
        """Open an answer to be read piece by piece; yields it with the ETag that the server gave.

        A redirect, to a store of artifacts, is followed without the token. Raises as `request` does; `ConnectionLost`
        also within the block, when the connection breaks.
        """
        errors: list[ConnectionFailed] = []
        for url in list(self._urls):
            try:
                ways = await self._bearer.ways(url)
            except ConnectionFailed as failed:
                errors.append(failed)
                ways = []
            for way in ways:
                try:
                    async with self._followed(way, path, _given(params)) as found:
                        yield found
                        return
                except _NOT_CONNECTED as failed:
                    errors.append(ConnectionFailed(unreachable(url, failed, way.proxy)))
                except httpx.RequestError as broken:
                    raise ConnectionLost(f"the download broke ({str(broken) or type(broken).__name__})") from None
            self._urls.append(self._urls.pop(0))
        raise as_one(errors)

    @asynccontextmanager
    async def _followed(
        self, way: Way, path: str, params: dict[str, Any] | None
    ) -> AsyncIterator[tuple[httpx.Response, str]]:
        request = self._request(way, "GET", path, params=params, timeout=TIMEOUT)
        async with _opened(self._open(), request, partial(_refusal, way=way), leads_on=True) as first:
            etag: str | None = first.headers.get("etag")
            if etag is None:
                raise _no_artifact(first, way)
            if not first.has_redirect_location:
                yield first, etag
                return
            location = first.headers["location"]
        from_bucket = partial(buckets.refusal, what="download")
        try:
            async with (
                network_client() as plain,
                _opened(plain, plain.build_request("GET", location, timeout=TIMEOUT), from_bucket) as second,
            ):
                yield second, etag
        except httpx.RequestError as error:
            raise buckets.broken("the download from", httpx.URL(location), error, buckets.SETTING) from None


@asynccontextmanager
async def _opened(
    client: httpx.AsyncClient, request: httpx.Request, refusal: _Refusal, *, leads_on: bool = False
) -> AsyncIterator[httpx.Response]:
    response = await client.send(request, stream=True)
    try:
        if not (response.is_success or (leads_on and response.has_redirect_location)):
            await response.aread()
            raise refusal(response)
        yield response
    finally:
        await response.aclose()


def _answer(response: httpx.Response, way: Way, asked: Operation | None) -> Any:
    if not (response.is_success or _is_also_said(response, asked)):
        raise _refusal(response, way)
    if response.status_code == httpx.codes.NO_CONTENT and (asked is None or asked.status == httpx.codes.NO_CONTENT):
        return None
    answer = _object(response)
    if answer is None:
        raise ConnectionLost(f"{_asked(response, way)} did not answer with a JSON object: is a Treadle server there?")
    if asked is not None and not asked.admits(answer):
        raise ConnectionLost(
            f"{_asked(response, way)} answered with JSON that is not a Treadle server's: is one there?"
        )
    return answer


def _no_artifact(response: httpx.Response, way: Way) -> ConnectionFailed:
    """Return the error for an answer without the ETag that every server gives: a proxy's or another program's."""
    if response.has_redirect_location:
        return ConnectionFailed(redirected(way.url, response.status_code, response.headers["location"]))
    return ConnectionLost(
        f"{_asked(response, way)} did not answer with an artifact (no ETag): is a Treadle server there?"
    )


def _asked(response: httpx.Response, way: Way) -> str:
    """Return the address that answered, by the name it was given, without the parameters, which may be long."""
    return str(response.url.copy_with(host=httpx.URL(way.url).host, query=None))[:300]


def _is_also_said(response: httpx.Response, asked: Operation | None) -> bool:
    """Return whether the operation may answer with this error status too, as `/readyz` does with 503."""
    if asked is None or response.status_code not in asked.also:
        return False
    answer = _object(response)
    return answer is not None and asked.admits(answer)


def _object(response: httpx.Response) -> dict[str, Any] | None:
    """Return the JSON object that was answered; None for anything else, including JSON that is nested too deeply."""
    try:
        answer = from_json(response.content)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _refusal(response: httpx.Response, way: Way) -> ProblemError | ConnectionFailed | InvalidArguments:
    """Return the server's problem, or, if a proxy or another program answered in its place, a `ConnectionFailed`."""
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        problem = None
    if problem is not None and problem.is_ours:
        error = error_for(problem)
        return way.explained(error) if isinstance(error, Unauthorized) else error
    if response.has_redirect_location:
        return ConnectionFailed(redirected(way.url, response.status_code, response.headers["location"]))
    said = f"{response.request.method} {_asked(response, way)}{through(way.proxy)} answers {response.status_code}"
    if response.status_code in _TOO_LONG and len(response.url.raw_path) > _LONG:
        return InvalidArguments(f"{said}: the path and the parameters are too long")
    if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
        return error_for(problem_named("payload-too-large", f"{said}: a proxy allows less than the server does"))
    kind = ConnectionFailed if response.status_code in _NOT_REACHED else ConnectionLost
    return kind(said + strange(way.url, response.status_code))


def _check_line(method: str, headers: Mapping[str, str]) -> None:
    """Raise `InvalidArguments` for a method or headers that no request can have."""
    if not isinstance(method, str) or not _NAME.fullmatch(method):
        raise InvalidArguments(f"{brief(method)} is not a request method: write GET, PUT, POST, PATCH or DELETE")
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidArguments(f"{brief(name)} is not a header name: use letters, digits and dashes")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidArguments(f"the header {name} can't be {brief(value)}: its value must be one line of ASCII")


def _content(body: Any) -> dict[str, Any]:
    return {"content": None if body is None else encoded(body)}


def _given(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the parameters that are not None; raises `InvalidArguments`, which names the one that can't be sent."""
    if params is None:
        return None
    given = {name: value for name, value in params.items() if value is not None}
    for name, value in given.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            plain_text(str(item), name)
    return given
