"""The session socket's server side: hello, frames in and out, and the dispatch of operations (docs/protocol.md)."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from treadle.wire.frames import PROTOCOL, Hello
from treadle.wire.ids import TaskId, is_uuid
from treadle.wire.log_lines import bound
from treadle.wire.values import LEAST_INTEGER, MOST_INTEGER
from treadle_server import __version__
from treadle_server.access.checks import visibility_of
from treadle_server.access.principal import Principal
from treadle_server.access.tokens import address_of, bearer
from treadle_server.access.trust import trust
from treadle_server.authorization.authorization import check_row, check_user
from treadle_server.authorization.narrowing import narrowed
from treadle_server.authorization.permission import Permission
from treadle_server.authorization.permissions import PERMISSIONS
from treadle_server.errors import (
    PayloadTooLarge,
    StoreUnavailable,
    TooManyRequests,
    TreadleError,
    Unauthorized,
    ValidationFailed,
)
from treadle_server.live.connection import BAD_FRAME, LATER, TOO_LARGE, TOO_SLOW, UNAUTHORIZED, Connection, fitting
from treadle_server.live.live import Live
from treadle_server.live.outbox import Outbox
from treadle_server.operations import values
from treadle_server.operations.encode import dumps
from treadle_server.operations.parsing import NotJson, parse
from treadle_server.operations.problems import problem_body
from treadle_server.store.reader_shares import asking

log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
MOST_HELLO = 64 * 1024
"""Maximum bytes of the first frame: no more is parsed before the token is checked."""

MOST_AT_ONCE = 1000
"""Maximum requests of one session in progress; further ones wait unread, and block the client's socket."""

MOST_IN_TURN = 20
"""Requests of one session that are started before other sessions get a turn: one millisecond of work."""

OF_RUN = frozenset({"reports", "reclaim", "receive"})
"""Operations whose commands check the run's row themselves."""

LARGE = frozenset({"get", "get_flow", "history", "logs", "runs", "steps", "watch"})
"""Read-only operations with answers of up to megabytes."""

LARGE_AT_ONCE = 8
"""Maximum large operations in progress on one session: their answers wait in memory until the client has read what
precedes them. Other sessions get their turn in between, however many a session asks for."""


class BadFrame(Exception):
    """The client sent something that is not a frame of this protocol."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and an action for when it is in the outbox: pushes that must not overtake it."""

    ok: Any
    then: Callable[[], None] | None = None


Handler = Callable[["Session", dict[str, Any]], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Op:
    """An operation: its handler, and the permission that is checked first (`authorization/authorization.py`)."""

    handler: Handler
    permission: Permission

    @classmethod
    def of(cls, name: str, handler: Handler) -> "Op":
        """Return the socket's counterpart of the HTTP operation with this name; it needs the same permission."""
        return cls(handler, PERMISSIONS[name])


@dataclass(slots=True, eq=False)
class Session(Connection):
    """A connection, and what its operations work with."""

    live: Live = field(kw_only=True)
    large: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_AT_ONCE))


async def accept(live: Live, socket: WebSocket) -> tuple[Session, list[Any]] | None:
    """Let a client in: a valid token, and a hello in time; None if it was turned away.

    The other items of the hello's frame are returned with the session. Raises `Forbidden` for a page of another site,
    before the socket is accepted.
    """
    live.ctx.access.check_page(socket.headers)
    live.ctx.access.check_origin(socket.headers)
    await socket.accept()
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            return await _greet(live, socket)
    except TimeoutError:
        # A client on a network that loses or delays messages has done nothing wrong.
        await _refuse(socket, TOO_SLOW, "no hello within 10 seconds")
    except (StoreUnavailable, TooManyRequests) as error:
        await _refuse(socket, LATER, error.detail)
    except Unauthorized as error:
        await _refuse(socket, UNAUTHORIZED, error.detail)
    except TreadleError as error:
        await _refuse(socket, BAD_FRAME, error.detail)
    except BadFrame as error:
        await _refuse(socket, BAD_FRAME, str(error))
    except WebSocketDisconnect:
        return None
    return None


async def _refuse(socket: WebSocket, code: int, reason: str) -> None:
    """Close a socket whose session has not begun; do nothing if the client has already gone."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        await socket.close(code, fitting(reason))


async def _greet(live: Live, socket: WebSocket) -> tuple[Session, list[Any]]:
    if live.is_closing:
        raise StoreUnavailable("this server is shutting down")
    text = await _receive(socket)
    if len(text) > MOST_HELLO:
        raise BadFrame(f"the frame with the hello may have at most {MOST_HELLO} bytes")
    items = await read_frame(text)
    if not items or not isinstance(items[0], dict) or items[0].get("op") != "hello":
        raise BadFrame("the first item must be a hello")
    hello = values.validate(Hello, items[0])
    if hello.protocol != PROTOCOL:
        raise BadFrame(f"protocol {hello.protocol} is not supported; use {PROTOCOL}")
    token = bearer(socket.headers) or hello.token
    principal = narrowed(await live.ctx.access.identify(token, address_of(socket)), socket.headers)
    trust(socket.scope)
    outbox = Outbox(live.ctx.settings.session_queue_bytes, live.backlog)
    session = Session(socket, principal, token, outbox, visibility_of(principal), live=live)
    session.outbox.put(dumps({"re": hello.n, "ok": _welcome(live, principal)}))
    return session, items[1:]


def _welcome(live: Live, principal: Principal) -> dict[str, Any]:
    engine = live.ctx.engine
    return {
        "protocol": PROTOCOL,
        "stream": engine.hub.stream,
        "seq": engine.hub.seq,
        "server": __version__,
        "user": principal.user,
        "superuser": principal.superuser,
        "database": engine.store.dialect,
        "time": live.ctx.now(),
        "max_bytes": live.ctx.settings.max_body_bytes,
    }


async def _receive(socket: WebSocket) -> str:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1006))
    text = message.get("text")
    if text is None:
        raise BadFrame("send frames as text messages, not as binary ones")
    return str(text)


async def read_frame(text: str) -> list[Any]:
    """Return the items of a frame, each still to be checked.

    Raises `BadFrame` if the text is not a frame, and `PayloadTooLarge`.
    """
    try:
        frame = await parse(text)
    except NotJson as error:
        raise BadFrame(f"the frame is not JSON: {error}") from None
    items = frame.get("items") if isinstance(frame, dict) and len(frame) == 1 else None
    if not isinstance(items, list):
        raise BadFrame('a frame must be an object {"items": [{…}, …]}')
    return items


async def converse(session: Session, first: list[Any], ops: dict[str, Op]) -> None:
    """Read requests and send messages until the connection ends; requests in progress are finished."""
    async with asyncio.TaskGroup() as group:
        loops = [
            group.create_task(_read(session, first, ops, group), name="read"),
            group.create_task(_write(session), name="write"),
            group.create_task(session.closed.wait(), name="closed"),
        ]
        await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
        for loop in loops:
            loop.cancel()
        session.outbox.close()


async def _write(session: Session) -> None:
    """Send waiting messages, in as few frames as possible."""
    # RuntimeError: this side closed the socket while this was waiting to send.
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):
        while (frame := await session.outbox.frame()) is not None:
            await session.socket.send_text(frame)
        await session.close(TOO_SLOW, "too slow: the client reads too slowly, and the server's send buffer is full")


async def _read(session: Session, first: list[Any], ops: dict[str, Op], group: asyncio.TaskGroup) -> None:
    """Start each request as it arrives; requests of one frame run concurrently, started in their order."""
    places, begun = asyncio.Semaphore(MOST_AT_ONCE), itertools.count(1)
    try:
        items = first
        while True:
            for item in items:
                request = _request(session, item)
                if request is None:
                    # Even with a million invalid items others get their turn, and the client has to read the problems.
                    await asyncio.sleep(0)
                    await session.outbox.room()
                    continue
                await places.acquire()
                if next(begun) % MOST_IN_TURN == 0:
                    await asyncio.sleep(0)
                with asking(session.principal.user):
                    task = group.create_task(_answer(session, request, ops), name=request.op)
                task.add_done_callback(lambda _: places.release())
            items = await read_frame(await _receive(session.socket))
    except BadFrame as error:
        await session.close(BAD_FRAME, str(error))
    except PayloadTooLarge as error:
        await session.close(TOO_LARGE, error.detail)
    except WebSocketDisconnect:
        return


@dataclass(frozen=True, slots=True)
class Request:
    """A request: an item with an operation and a number."""

    op: str
    n: int
    fields: dict[str, Any]


def _request(session: Session, item: Any) -> Request | None:
    """Return the request; None if the item is not one, after sending a problem (`re: null` without a number)."""
    op, number = (item.pop("op", None), item.pop("n", None)) if isinstance(item, dict) else (None, None)
    n = number if type(number) is int and LEAST_INTEGER <= number <= MOST_INTEGER else None
    if n is not None and isinstance(op, str):
        return Request(op, n, item)
    wrong = "n: number each request with a 64-bit integer" if n is None else "op: name the operation, as a string"
    session.outbox.put(dumps({"re": n, "problem": problem_body(ValidationFailed(wrong))}))
    return None


async def _answer(session: Session, request: Request, ops: dict[str, Op]) -> None:
    """Execute a request and send its answer, or the problem that HTTP would give."""
    try:
        op = _op(ops, request.op)
        if session.principal.run is not None:
            # The credential or its run may have ended since the session was opened.
            await session.live.ctx.access.principal(session.token, of_run=request.op in OF_RUN)
        check_user(op.permission, session.principal)
        if session.visibility is not None:
            await _check_row(session, op.permission, request.fields)
        async with session.large if request.op in LARGE else contextlib.nullcontext():
            if request.op in LARGE and session.outbox.is_closed:
                # The client has gone, so nobody would read the answer.
                return
            reply = await op.handler(session, request.fields)
            answer = dumps({"re": request.n, "ok": reply.ok})
            # The client would not read it before the unread messages ahead of it.
            await session.outbox.room()
            session.outbox.put(answer)
        if reply.then is not None:
            reply.then()
    except TreadleError as error:
        problem = problem_body(error)
        if error.retry_after is not None:
            problem["retry_after"] = error.retry_after
        session.outbox.put(dumps({"re": request.n, "problem": problem}))
    except Exception:
        with bound(session=session.number, request=request.n, **_named_by(session, request)):
            log.exception("op %s failed", request.op)
        problem = problem_body(TreadleError("internal error: the server's log has the traceback"))
        session.outbox.put(dumps({"re": request.n, "problem": problem}))


def _named_by(session: Session, request: Request) -> dict[str, Any]:
    """Return the ids that the request is about, by their names in log lines."""
    fields = request.fields
    named = {"worker": session.worker_id, "task": fields.get("task_id", fields.get("id")), "run": fields.get("run_id")}
    return {name: value for name, value in named.items() if isinstance(value, str | int)}


async def _check_row(session: Session, permission: Permission, fields: dict[str, Any]) -> None:
    """Hide a task that a token with scopes may not see; invalid ids are left to the operation."""
    task_id = fields.get("task_id", fields.get("id"))
    if isinstance(task_id, str) and is_uuid(task_id.lower()):
        await check_row(session.live.ctx.engine.store, permission, session.principal, task_id=TaskId(task_id.lower()))


def _op(ops: dict[str, Op], name: str) -> Op:
    if (op := ops.get(name)) is None:
        raise ValidationFailed(f"op: unknown operation {name[:40]!r}; known are: {', '.join(sorted(ops))}")
    return op
