"""A server in this process: asked over HTTP and the socket without a network, turned by hand, and killed."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Protocol
from unittest import mock

import httpx
from starlette.applications import Starlette
from starlette.types import Message

from tests.model.operations.base import USERS, Request
from tests.model.things import ROOT, Key
from treadle_server.domain.limits import Named
from treadle_server.engine.commands import OpenLimits
from treadle_server.engine.hub import Batch
from treadle_server.errors import StoreUnavailable
from treadle_server.services.dependants import LONGEST_SLEEP, Dependants
from treadle_server.services.poller import Poller
from treadle_server.services.promoter import Promoter
from treadle_server.services.scheduler import Scheduler
from treadle_server.services.sweeper import Sweeper
from treadle_server.store.base import Tx

LONGEST = 1e9
"""Seconds; a sweeper with this interval takes no advance of the clock for an outage."""

PATIENCE = 60.0
"""Seconds of the wall's clock after which a server does not answer any more."""

MOST_TURNS = 200
"""In which all must be told."""

Tokens = dict[Any, str]
"""Tokens of users by their names, and credentials of runs by theirs: of each run the last that was given."""


class Killed(Exception):
    """The server is gone, as by `kill -9`."""


class TurnedByHand(Protocol):
    """A service, as far as it is turned here."""

    async def turn(self) -> float:
        """Do it once."""
        ...


class Site:
    """A server, whose services turn when they are told to."""

    def __init__(self, app: Starlette, http: httpx.AsyncClient, tokens: Tokens, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.engine = app.state.ctx.engine
        self._app = app
        self._http = http
        self.tokens = tokens
        self.sweeper = Sweeper(self.engine, interval=LONGEST, worker_timeout=60.0)
        self.promoter = Promoter(self.engine)
        self.poller = Poller(self.engine)
        self.scheduler = Scheduler(self.engine)
        self.dependants = Dependants(self.engine)
        self.told: dict[str, tuple[int, str]] = {}
        """What the events say of each task: its version and its status."""
        self.engine.hub.listen(self._heard)

    def _heard(self, batch: Batch) -> None:
        for change in batch.tasks:
            self.told[change.task.id] = (change.task.version, change.task.status.value)

    async def make_tokens(self) -> None:
        """Make tokens for the plain users."""
        for user in USERS[1:]:
            status, body = await self.ask(Request(ROOT, "POST", "/v1/tokens", {"name": user.name}))
            assert status == 201, body
            self.tokens[user.name] = body["token"]

    async def ask(self, request: Request) -> tuple[int, Any]:
        """Return the status and the body."""
        token = self.tokens[request.user.run or request.user.name]
        if request.method == "SOCKET":
            return await self._ask_by_socket(token, request)
        headers = {"Authorization": f"Bearer {token}"} | (
            {} if request.key is None else {"Idempotency-Key": request.key}
        )
        answer = await self._http.request(request.method, request.path, json=request.body, headers=headers)
        body = answer.json() if answer.content else None
        if answer.status_code == 200 and isinstance(body, dict):
            for one in body.get("tasks", [body]) if request.method == "POST" else ():
                if "credentials" in one:
                    self.tokens[one.get("id", one.get("task_id")), one["run_id"]] = one["credentials"]
        return answer.status_code, body

    async def _ask_by_socket(self, token: str, request: Request) -> tuple[int, Any]:
        """Open a session, ask, and close it."""
        sent, received = asyncio.Queue[Message](), asyncio.Queue[Message]()
        hello = {"op": "hello", "n": 0, "protocol": 1, "token": token}
        sent.put_nowait({"type": "websocket.connect"})
        sent.put_nowait(_frame([hello, {"op": request.path, "n": 1, **(request.body or {})}]))
        scope = {
            "type": "websocket", "path": "/v1/session", "raw_path": b"/v1/session", "query_string": b"", "headers": [],
            "subprotocols": [], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "ws",
            "root_path": "", "asgi": {"version": "3.0"}, "state": {},
        }  # fmt: skip
        session = asyncio.create_task(self._app(scope, sent.get, received.put))
        try:
            async with asyncio.timeout(PATIENCE):
                while (item := _answer_in(await received.get())) is None:
                    pass
                sent.put_nowait({"type": "websocket.disconnect", "code": 1000})
                await session
        finally:
            session.cancel()
        return (200, item["ok"]) if "ok" in item else (item["problem"]["status"], item["problem"])

    @contextmanager
    def failing(self, *, done: bool, after: int = 0) -> Iterator[list[str]]:
        """Have a commit fail, `done` or not, `after` so many; what is given tells whether one came."""
        faults = list[str]()

        async def undone() -> None:
            faults.append("undone")
            raise StoreUnavailable("the database went away; nothing was changed", retry_after=1)

        async def unanswered() -> None:
            faults.append("done")
            raise StoreUnavailable("the database did not answer; whether it was done is unknown", retry_after=1)

        with self._at_commit(unanswered if done else undone, done=done, after=after):
            yield faults

    @contextmanager
    def dying(self, *, done: bool, after: int = 0) -> Iterator[asyncio.Event]:
        """Have everything stop right before a commit or, with `done`, right after it; the event says that it came."""
        stopped = asyncio.Event()

        async def stop() -> None:
            stopped.set()
            await asyncio.Event().wait()

        with self._at_commit(stop, done=done, after=after):
            yield stopped

    @contextmanager
    def _at_commit(self, fault: Any, *, done: bool, after: int) -> Iterator[None]:
        """Call `fault` once, before the commit that is number `after`, or after it."""
        store, passed = self.engine.store, iter(range(after))
        plain, is_over = store.write, False

        @asynccontextmanager
        async def write(**how: Any) -> AsyncIterator[Tx]:
            nonlocal is_over
            is_meant = not is_over and next(passed, None) is None
            async with plain(**how) as tx:
                yield tx
                if is_meant and not done:
                    is_over = True
                    await fault()
            if is_meant and done:
                is_over = True
                await fault()

        with mock.patch.object(store, "write", write):
            yield

    async def kill(self) -> None:
        """End it without another word: what is under way is cancelled where it stands."""
        try:
            await self.stack.__aexit__(Killed, Killed(), None)
        except* Killed:
            pass

    async def settle(self) -> None:
        """Have what the server doubts found out: it does so before it writes anything else."""
        # Pausing a queue that is paused, or letting one go that goes, changes nothing.
        _, page = await self.ask(Request(ROOT, "GET", "/v1/rooms/@global/jobs"))
        for job in page["items"][:1]:
            path = f"/v1/rooms/@global/jobs/{job['full_name']}"
            status, _ = await self.ask(Request(ROOT, "PATCH", path, {"paused": job["paused"]}))
            assert status == 200

    def see_clock(self, now: datetime) -> None:
        """Have the server see the store's clock, as it does whenever it writes."""
        self.engine.drift.look(now)

    async def let_through(self, keys: Iterable[Key]) -> None:
        """Look again at those who wait for these keys, as it is done a second later."""
        await self.engine.run(OpenLimits([Named(*key, weight=1).bucket_id for key in keys]))

    async def turn(self, service: str) -> None:
        """Let a service do its turn; the one that tells those who wait, turns until nothing is left to tell."""
        if service == "follow":
            for _ in range(MOST_TURNS):
                if await self.dependants.turn() == LONGEST_SLEEP:
                    return
            raise AssertionError("there is always something left to tell")
        if service == "fill":
            await self.engine.run(OpenLimits())
            return
        if service in {"tick", "promote"}:
            # They read the clock that the last transaction left; the sweeper's turn reads the store's.
            await self.engine.store.read_clock()
        services: dict[str, TurnedByHand] = {
            "sweep": self.sweeper, "promote": self.promoter, "poll": self.poller, "tick": self.scheduler,
        }  # fmt: skip
        await services[service].turn()


def _frame(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "websocket.receive", "text": json.dumps({"items": items})}


def _answer_in(message: Message) -> dict[str, Any] | None:
    """Return the answer to the request among what the server sent. Raises ConnectionError when it turned us away."""
    if message["type"] == "websocket.close":
        raise ConnectionError(f"the session was closed: {message}")
    items = json.loads(message["text"])["items"] if message["type"] == "websocket.send" else []
    return next((item for item in items if item.get("re") == 1), None)


async def ended(task: "asyncio.Task[Any]") -> None:
    """Cancel the task and wait until it has ended."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Killed, StoreUnavailable):
        await task
