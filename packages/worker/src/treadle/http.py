"""Plain HTTP: lists, and everything that the socket does, for those who can't open one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from pydantic import ValidationError
from pydantic_core import to_json

from treadle.errors import ConnectionFailed, ConnectionLost, ProtocolMismatch, TreadleError, error_for
from treadle.reaching import delays, is_loopback, shuffled, unreachable
from treadle.wire.problems import Problem

Fields = dict[str, Any]

TokenSource = str | Callable[[], Awaitable[str]]
"""A token, or what gives the one to show at this moment."""


class Route(NamedTuple):
    """How a socket request is made over HTTP."""

    method: str
    path: str
    body: Any = None


def _submit(f: Fields) -> Route:
    return Route("POST", f"/v1/rooms/{_part(f['room'])}/tasks", {"tasks": f["tasks"]})


def _task(method: str, tail: str = "") -> Callable[[Fields], Route]:
    return lambda f: Route(method, f"/v1/tasks/{_part(f['id'])}{tail}")


def _action(f: Fields) -> Route:
    body = {name: value for name, value in f.items() if name not in {"id", "action"}}
    return Route("POST", f"/v1/tasks/{_part(f['id'])}/{f['action']}", body)


def _edit(f: Fields) -> Route:
    return Route("PATCH", f"/v1/tasks/{_part(f['id'])}", {name: value for name, value in f.items() if name != "id"})


def _register(f: Fields) -> Route:
    body = {name: value for name, value in f.items() if name != "room"}
    return Route("PUT", f"/v1/rooms/{_part(f['room'])}/jobs", body)


def _job(f: Fields) -> Route:
    room = f["job"].partition(":")[0]
    return Route("PATCH", f"/v1/rooms/{_part(room)}/jobs/{_part(f['job'])}", {"paused": f["paused"]})


ROUTES: dict[str, Callable[[Fields], Route]] = {
    "submit": _submit,
    "submit_each": _submit,
    "get": _task("GET"),
    "runs": _task("GET", "/runs"),
    "logs": _task("GET", "/logs"),
    "action": _action,
    "actions": lambda f: Route("POST", "/v1/tasks/actions", f),
    "edit": _edit,
    "register": _register,
    "job": _job,
    "ping": lambda _: Route("GET", "/healthz"),
}
"""The HTTP route of each request that a client makes on the socket."""

_SAFE = frozenset({"GET", "PUT", "DELETE"})


class HttpChannel:
    """The same requests as `Session.call`, one HTTP request each; several URLs are tried in turn."""

    def __init__(
        self,
        urls: tuple[str, ...],
        token: TokenSource | None,
        *,
        patience: float = 0.0,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._urls = shuffled(urls)
        self._patience = patience
        self._timeout = timeout
        self._token = token if callable(token) else None
        headers = {"Authorization": f"Bearer {token}"} if token and not callable(token) else {}
        # A hundred connections at most; a further request waits for one.
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20)
        loopback = all(is_loopback(httpx.URL(url).host) for url in urls)
        # SSL_CERT_FILE counts everywhere, proxies only beyond this machine; without TLS no certificates are read.
        secure = any(url.startswith("https:") for url in urls)
        verify = httpx.create_ssl_context() if secure else True
        self._client = httpx.AsyncClient(
            headers=headers, limits=limits, trust_env=not loopback, verify=verify, transport=transport
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def call(self, op: str, fields: Fields | None = None, *, resend: bool = True) -> Any:
        """Do what the socket's `op` does; raises as `Session.call`."""
        route = ROUTES[op](fields or {})
        return await self.request(route.method, route.path, route.body, resend=resend)

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
    ) -> Any:
        """Send one request and return the answer's JSON, None when it has no body.

        `resend` (the default for GET, PUT and DELETE) allows to send it again when the connection broke. Raises
        `ConnectionFailed`, `ConnectionLost`, `ProtocolMismatch`, and the problem's `ProblemError`.
        """
        again = method in _SAFE if resend is None else resend
        content = None if body is None else to_json(body, inf_nan_mode="null")
        sent_headers = {**(headers or {}), **({"Content-Type": "application/json"} if content is not None else {})}
        loop = asyncio.get_running_loop()
        since = loop.time()
        for delay in delays():
            error = "no server's address is given"
            for url in list(self._urls):
                if self._token is not None:
                    sent_headers["Authorization"] = f"Bearer {await self._token()}"
                try:
                    response = await self._client.request(
                        method,
                        url + path,
                        content=content,
                        params=_given(params),
                        headers=sent_headers,
                        timeout=self._timeout if timeout is None else timeout,
                    )
                except (httpx.ConnectError, httpx.ConnectTimeout) as failed:
                    error = unreachable(url, failed)
                except httpx.TransportError as broken:
                    error = f"the connection to {url} broke before the answer came ({broken or type(broken).__name__})"
                    if not again:
                        raise ConnectionLost(error) from None
                else:
                    return _answer(response)
                self._urls.append(self._urls.pop(0))
            if loop.time() - since >= self._patience:
                raise ConnectionFailed(error)
            await asyncio.sleep(delay)
        raise AssertionError("the delays never end")

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[tuple[httpx.Response, str | None]]:
        """Open an answer to be read piece by piece, with the ETag that the server said of it.

        A redirect, to a store of artifacts, is followed without the token. Raises as `request`; `ConnectionLost` also
        from the block, when the connection breaks.
        """
        error = "no server's address is given"
        for url in list(self._urls):
            try:
                async with self._followed(url + path, _given(params)) as found:
                    yield found
                    return
            except (httpx.ConnectError, httpx.ConnectTimeout) as failed:
                error = unreachable(url, failed)
                self._urls.append(self._urls.pop(0))
            except httpx.TransportError as broken:
                raise ConnectionLost(f"the download broke ({broken or type(broken).__name__})") from None
        raise ConnectionFailed(error)

    @asynccontextmanager
    async def _followed(
        self, url: str, params: dict[str, Any] | None
    ) -> AsyncIterator[tuple[httpx.Response, str | None]]:
        async with self._opened(url, params, self._client) as first:
            etag = first.headers.get("etag")
            if not first.is_redirect:
                yield first, etag
                return
            location = first.headers["location"]
        async with (
            httpx.AsyncClient(trust_env=not is_loopback(httpx.URL(location).host)) as plain,
            self._opened(location, None, plain) as second,
        ):
            yield second, etag

    @asynccontextmanager
    async def _opened(
        self, url: str, params: dict[str, Any] | None, client: httpx.AsyncClient
    ) -> AsyncIterator[httpx.Response]:
        # Compressed on the way it would be another length, and another digest.
        plain = {"Accept-Encoding": "identity"}
        async with client.stream("GET", url, params=params, headers=plain, timeout=self._timeout) as response:
            if response.is_error:
                await response.aread()
                raise _refusal(response)
            yield response


def _answer(response: httpx.Response) -> Any:
    if response.is_success:
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise ProtocolMismatch(f"{response.url} answers no JSON: is a Treadle server there?") from None
    raise _refusal(response)


def _refusal(response: httpx.Response) -> TreadleError:
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        where = f"{response.request.method} {response.url}"
        return ProtocolMismatch(f"{where} answers {response.status_code}: is a Treadle server there?")
    return error_for(problem)


def _given(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if params is None else {name: value for name, value in params.items() if value is not None}


def _part(text: str) -> str:
    return quote(text, safe="@:")
