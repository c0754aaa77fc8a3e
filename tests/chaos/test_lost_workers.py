"""How soon the server sees that a worker is gone, and what it does with what that worker held (G8)."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos import guarded
from tests.chaos.processes import ServerProcess, WorkerProcess, running_server, stopped_at_the_end
from tests.chaos.wires import Wire, wire_to
from treadle import Client, Context, Options, Worker, task
from treadle.wire.workers import WorkerItem
from treadle_server.engine.dispatch.presence import LATE

pytestmark = pytest.mark.anyio

LEASE = 2.0
SWEEP = 0.5
SLACK = 15.0
"""Seconds that a busy machine may take for what is due; what the lease does not end here waits longer than that."""


@asynccontextmanager
async def serving(tmp_path: Path, database_url: str, **settings: str) -> AsyncIterator[tuple[ServerProcess, Client]]:
    settings = {"TREADLE_SWEEPER_INTERVAL_SECONDS": str(SWEEP), **settings}
    async with AsyncExitStack() as stack:
        server = stack.enter_context(running_server(tmp_path, database_url, **settings))
        yield server, await stack.enter_async_context(Client(server.url, server.token))


async def _seen(client: Client, task_id: str, status: str) -> float:
    """Wait until a task has the status, and return when it was seen to."""
    async with asyncio.timeout(30):
        while (await client.get(task_id)).status != status:
            await asyncio.sleep(0.02)
    return time.monotonic()


def _touch(path: Path) -> None:
    path.touch()


async def test_g8_a_killed_workers_task_is_taken_from_it_within_lease_and_sweep(
    tmp_path: Path, database_url: str
) -> None:
    """T6: it is put back, and another worker runs it."""
    trace = {"TREADLE_TEST_TRACE": str(tmp_path / "trace"), "TREADLE_TEST_NAME": "a"}
    async with serving(tmp_path, database_url) as (server, client):
        worker = WorkerProcess(server, "tests.chaos.guarded", name="a", **trace)
        worker.start()
        handle = await client.submit(guarded.unaware.bind(n=0), options=Options(lease_seconds=LEASE))
        await _seen(client, handle.id, "running")

        worker.kill()
        killed = time.monotonic()
        noticed = await _seen(client, handle.id, "pending")

        worker.start()
        try:
            await _seen(client, handle.id, "running")
            _touch(tmp_path / "trace.0")
            assert await handle.result(timeout=30) == "run 1"
        finally:
            await asyncio.to_thread(worker.stop)
        runs = await handle.runs()

    assert noticed - killed < LEASE + SWEEP + SLACK
    assert [(run.status, run.reason) for run in runs] == [("exception", "claim-expired"), ("completed", None)]


@pytest.mark.one_database
@pytest.mark.crossed
async def test_a_deaf_worker_is_given_nothing_and_another_takes_what_comes_n5(
    tmp_path: Path, database_url: str
) -> None:
    """A stopped process keeps its connection: what it was given was lost until its lease ended."""
    trace = {"TREADLE_TEST_TRACE": str(tmp_path / "trace")}
    async with serving(tmp_path, database_url, TREADLE_WORKER_TIMEOUT_SECONDS="30") as (server, client):
        deaf, other = (
            WorkerProcess(server, "tests.chaos.guarded", name=name, TREADLE_TEST_NAME=name, **trace) for name in "ab"
        )
        deaf.start()
        with stopped_at_the_end(deaf):
            held = await client.submit(guarded.unaware.bind(n=0), options=Options(lease_seconds=60))
            await _seen(client, held.id, "running")
            worker_id = (await held.get()).worker_id
            other.start()
            with stopped_at_the_end(other):
                await _until(lambda: _are_online(server, 2))
                deaf.signal(signal.SIGSTOP)
                try:
                    await _until(lambda: _owes_a_beat(server, worker_id))
                    for n in range(1, 9):
                        (tmp_path / f"trace.{n}").touch()
                    bound = [guarded.unaware.bind(n=n) for n in range(1, 9)]
                    handles = [await client.submit(one, options=Options(lease_seconds=60)) for one in bound]
                    results = [await handle.result(timeout=30) for handle in handles]
                    takers = {run.worker_id for handle in handles for run in await handle.runs()}
                finally:
                    deaf.signal(signal.SIGCONT)
                    (tmp_path / "trace.0").touch()

        assert results == ["run 0"] * 8
        assert len(takers - {worker_id}) == len(takers) == 1


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.05)


async def _workers(server: ServerProcess) -> list[WorkerItem]:
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers) as http:
        return [WorkerItem.model_validate(item) for item in (await http.get("/v1/workers")).json()["items"]]


async def _are_online(server: ServerProcess, count: int) -> bool:
    return sum(bool(worker.jobs) for worker in await _workers(server)) == count


async def _owes_a_beat(server: ServerProcess, worker_id: str | None) -> bool:
    """Whether it surely does: the server counts from when it heard of the beat, which is after the beat's own time."""
    [worker] = [worker for worker in await _workers(server) if worker.id == worker_id]
    return worker.heartbeat_age > worker.beat_seconds + LATE + 2


@task(lease_seconds=30, start_timeout=60)
async def never_begun(n: int) -> int:
    return n


class Holding:
    """A worker on the wire that was pushed claims and starts none: what a busy one with prefetch looks like."""

    def __init__(self, wire: Wire, token: str) -> None:
        from treadle.transport.session import Session

        self.claims: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.session = Session((wire.url,), token, on_push=self._on_push)

    def _on_push(self, item: dict[str, Any]) -> None:
        for claim in item.get("tasks", ()):
            self.claims.put_nowait(claim)

    async def open(self) -> None:
        job = {"room": "@global", "category": "tasks", "name": "never_begun", **_job()}
        await self.session.call("open", {"worker": {"concurrency": 5}, "jobs": [job]})


def _job() -> dict[str, Any]:
    from treadle import Settings

    body = never_begun.registration(Settings())
    return {name: value for name, value in body.items() if name not in {"category", "name"}}


@pytest.mark.parametrize("how", [pytest.param("reset", marks=pytest.mark.crossed), "silence"])
async def test_g8_a_broken_session_gives_back_what_had_not_started_after_5_s(
    tmp_path: Path, database_url: str, how: str
) -> None:
    """What has a target waits for its lease. A silent line is known to be broken by its unanswered pings."""
    ping = 1
    async with (
        serving(tmp_path, database_url, TREADLE_SESSION_PING_SECONDS=str(ping)) as (server, client),
        wire_to(server.url) as wire,
        asyncio.TaskGroup() as group,
    ):
        holding = Holding(wire, server.token)
        running = group.create_task(holding.session.run())
        await holding.open()
        free = await client.submit(never_begun.bind(n=0))
        guarded_one = await client.submit(never_begun.bind(n=1), options=Options(target="robot"))
        async with asyncio.timeout(20):
            claims = {(await holding.claims.get())["id"], (await holding.claims.get())["id"]}
        assert claims == {free.id, guarded_one.id}

        broken = time.monotonic()
        if how == "reset":
            wire.cut()
        else:
            wire.silence()
        returned = await _seen(client, free.id, "pending")

        assert (await guarded_one.get()).status == "claimed"
        assert [(run.status, run.reason) for run in await free.runs()] == [("returned", "returned")]
        item = await free.get()
        assert (item.retry_count, item.requeue_count) == (0, 0)
        running.cancel()

    unnoticed = 0 if how == "reset" else 2 * ping
    assert 5 - 0.2 < returned - broken < 5 + unnoticed + SLACK


async def test_g8_a_worker_that_is_back_in_time_keeps_what_it_had_not_started(
    tmp_path: Path, database_url: str
) -> None:
    """A reset line is mended within moments: nothing is given back, and every task runs once."""
    gate = asyncio.Event()
    began: list[int] = []

    @task(lease_seconds=30)
    async def waits(ctx: Context, n: int) -> int:
        began.append(n)
        await gate.wait()
        return ctx.run_id

    async with (
        serving(tmp_path, database_url) as (server, client),
        wire_to(server.url) as wire,
        asyncio.TaskGroup() as group,
    ):
        worker = Worker([waits], url=wire.url, token=server.token, concurrency=1, prefetch=2, drain_grace=1)
        working = group.create_task(worker.run_async())
        handles = await client.submit_many([waits.bind(n) for n in range(3)])
        await _seen(client, handles[2].id, "claimed")
        wire.cut()
        wire.heal()
        gate.set()

        assert [await handle.result(timeout=30) for handle in handles] == [0, 0, 0]
        worker.stop()
        await working

    assert began == [0, 1, 2]


async def test_g8_a_worker_on_plain_http_that_dies_is_noticed_too(tmp_path: Path, database_url: str) -> None:
    """A claim over HTTP that nobody renews is put back within lease and sweep."""
    async with serving(tmp_path, database_url) as (server, client):
        handle = await client.submit(
            never_begun.bind(n=0), options=Options(lease_seconds=LEASE, start_timeout=60, max_requeues=1)
        )
        async with httpx.AsyncClient(base_url=server.url, headers=server.headers) as http:
            worker_id = (await http.post("/v1/workers", json={})).json()["id"]
            await http.put("/v1/rooms/@global/jobs", json=never_begun_registration(worker_id))
            claimed = await http.post("/v1/tasks/claim", json={"worker_id": worker_id})
        assert claimed.json()["task"]["id"] == handle.id
        lost = time.monotonic()

        noticed = await _seen(client, handle.id, "pending")
        runs = await handle.runs()

    assert noticed - lost < LEASE + SWEEP + SLACK
    assert [(run.status, run.reason) for run in runs] == [("exception", "claim-expired")]


def never_begun_registration(worker_id: str) -> dict[str, Any]:
    return {"category": "tasks", "name": "never_begun", **_job(), "worker_id": worker_id}
