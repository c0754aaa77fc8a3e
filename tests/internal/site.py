"""A server with executors: what is submitted to it, what its broker gets, and what executors report."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from taskiq import AsyncBroker, BrokerMessage

from tests.conftest import FakeClock
from tests.waiting import until
from treadle.internal import InternalRegistry
from treadle_server.internal.bridge import Bridge
from treadle_server.services.sweeper import Sweeper
from treadle_server.testing import Served, serve

Claim = dict[str, Any]
LONGEST_TEST = 1e9
"""Seconds; a sweeper with this interval takes no advance of the clock for an outage."""


class PaperBroker(AsyncBroker):
    """Keeps the claims that it is given, and does with each what the test says; nobody executes them but the test."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[Claim] = []
        self.on_kick: Callable[[Claim], Awaitable[None]] | None = None

    async def kick(self, message: BrokerMessage) -> None:
        claim = json.loads(message.message)["kwargs"]["claim"]
        self.claims.append(claim)
        if self.on_kick is not None:
            await self.on_kick(claim)

    def listen(self) -> Any:
        raise RuntimeError("nobody listens")


class Site:
    """A server, its superuser, and its executors."""

    def __init__(self, served: Served, http: httpx.AsyncClient, clock: FakeClock | None) -> None:
        self.served = served
        self.http = http
        self.clock = clock
        self.engine = served.engine
        self._sweeper = Sweeper(served.engine, interval=LONGEST_TEST, worker_timeout=60)

    @property
    def bridge(self) -> Bridge:
        return self.served.app.state.ctx.internal  # type: ignore[no-any-return]

    async def post(self, name: str = "add", *, room: str = "lab", **fields: Any) -> httpx.Response:
        """Submit a task and return the answer."""
        body = {"payload": {"a": 1}, **fields}
        return await self.http.post(f"/v1/rooms/{room}/tasks/@internal:tasks:{name}", json=body)

    async def submit(self, name: str = "add", **fields: Any) -> Claim:
        """Submit a task that is taken."""
        answer = await self.post(name, **fields)
        assert answer.status_code == 202, answer.text
        return answer.json()  # type: ignore[no-any-return]

    async def get(self, task: Claim) -> Claim:
        answer = await self.http.get(f"/v1/tasks/{task['id']}")
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    async def over(self, task: Claim, seconds: int = 20) -> Claim:
        """Wait until the task is terminal."""
        answer = await self.http.get(f"/v1/tasks/{task['id']}", headers={"Prefer": f"wait={seconds}"})
        return answer.json()  # type: ignore[no-any-return]

    async def runs(self, task: Claim) -> list[dict[str, Any]]:
        return (await self.http.get(f"/v1/tasks/{task['id']}/runs")).json()["items"]  # type: ignore[no-any-return]

    async def until(self, task: Claim, wanted: Callable[[Claim], Any]) -> Claim:
        """Look at the task until it is as wanted."""
        return await until(lambda: self.get(task), wanted)

    async def act(self, task: Claim, action: str, **fields: Any) -> Claim:
        answer = await self.http.post(f"/v1/tasks/{task['id']}/{action}", json=fields)
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    # What an executor does with a claim

    async def start(self, claim: Claim) -> int:
        """Start the claim's run as an executor does, and return the status that answers."""
        body = {"status": "running", "run_id": claim["run_id"]}
        return (await self.http.patch(f"/v1/tasks/{claim['id']}", json=body, headers=_as(claim))).status_code

    async def report(self, claim: Claim, kind: str, **fields: Any) -> int:
        """Report of the claim's run, and return the status that answers."""
        path = f"/v1/tasks/{claim['id']}/runs/{claim['run_id']}/{kind}"
        return (await self.http.post(path, json=fields or None, headers=_as(claim))).status_code

    # Time

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, then the services do a turn."""
        assert self.clock is not None
        await self.sweep()
        self.clock.advance(seconds)
        await self.sweep()

    async def sweep(self) -> None:
        await self.bridge.turn()
        await self._sweeper.turn()


def _as(claim: Claim) -> dict[str, str]:
    return {"Authorization": f"Bearer {claim['credentials']}"}


@asynccontextmanager
async def site(
    database_url: str | None, registry: InternalRegistry, *, clock: FakeClock | None = None, **settings: Any
) -> AsyncIterator[Site]:
    """Serve the registry's jobs during the block."""
    async with (
        serve(database_url, clock=clock, internal=registry, **settings) as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=30) as http,
    ):
        yield Site(served, http, clock)
    assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]
