"""Databases that go away, fill up or are locked: a clear answer, nothing half done, and on again by itself (T8)."""

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests.chaos.processes import ServerProcess, WorkerProcess
from tests.servers.conftest import PATIENCE
from tests.servers.postgres import OwnPostgres
from tests.storm.wires import DatabaseWire
from tests.waiting import until
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio

JOB = {"category": "tasks", "name": "add", "schema": {}, "retain": True}
NAME = "lab:tasks:add"


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=60) as client:
        (await client.put("/v1/rooms/lab/jobs", json=JOB)).raise_for_status()
        yield client


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(data_dir=tmp_path) as served:
        yield served


async def submit(client: httpx.AsyncClient, size: int = 1, task_id: str | None = None) -> httpx.Response:
    body = {"payload": {"text": "x" * size}, **({"id": task_id} if task_id else {})}
    return await client.post(f"/v1/rooms/lab/tasks/{NAME}", json=body)


def unavailable(answer: httpx.Response) -> str:
    """Return why, of an answer that says that the database is to blame."""
    assert (answer.status_code, answer.json()["type"]) == (503, "/v1/problems/store-unavailable"), answer.text
    assert int(answer.headers["retry-after"]) >= 1
    return str(answer.json()["detail"])


async def test_a_full_disk_is_said_to_be_full_and_leaves_nothing_half_done_t8(
    served: Served, client: httpx.AsyncClient
) -> None:
    """As when no page can be added to the file; it can still be read, and work goes on when there is room."""
    kept = [(await submit(client)).json()["id"]]
    async with served.engine.store.write() as tx:
        pages = (await tx.connection.exec_driver_sql("PRAGMA page_count")).scalar()
        await tx.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")

    many = {"tasks": [{"job": NAME, "payload": {"text": "x" * 50_000}} for _ in range(10)]}
    refused = await client.post("/v1/rooms/lab/tasks", json=many)

    assert "disk is full: free space" in unavailable(refused)
    assert (await client.get("/v1/tasks")).json()["total"] == 1
    assert (await client.get(f"/v1/rooms/lab/jobs/{NAME}")).json()["counts"]["pending"] == 1
    kept.append((await submit(client)).json()["id"])
    async with served.engine.store.write() as tx:
        await tx.connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    assert (await client.post("/v1/rooms/lab/tasks", json=many)).status_code == 202
    found = (await client.get("/v1/tasks")).json()
    assert found["total"] == 12
    assert set(kept) <= {task["id"] for task in found["items"]}


async def test_a_database_that_another_process_locks_is_waited_for_and_then_said_to_be_t8(
    served: Served, client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle_server.store.sqlite.writer.TRIES", 4)
    locker = sqlite3.connect(tmp_path / "treadle.db", isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")

    refused = await submit(client)
    assert "another process holds a lock on the database" in unavailable(refused)
    assert (await client.get("/v1/tasks")).json()["total"] == 0

    monkeypatch.setattr("treadle_server.store.sqlite.writer.TRIES", 10)
    patient = asyncio.create_task(submit(client))
    await asyncio.sleep(0)
    locker.execute("ROLLBACK")
    locker.close()
    assert (await patient).status_code == 202
    assert (await client.get("/v1/tasks")).json()["total"] == 1


class Load:
    """Submits one task after another under an id of its own, again if need be, until it is stopped."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.acknowledged: list[str] = []
        self.refusals: list[httpx.Response] = []
        self.is_over = False

    async def run(self) -> None:
        while not self.is_over:
            name = str(uuid4())
            answer = await until(partial(self._try, name), lambda found: found.status_code != 503)
            assert answer.status_code in {200, 202}, answer.text
            self.acknowledged.append(name)

    async def _try(self, name: str) -> httpx.Response:
        answer = await submit(self._client, task_id=name)
        if answer.status_code == 503:
            self.refusals.append(answer)
        return answer

    async def reached(self, count: int) -> None:
        """Wait for so many more acknowledged tasks."""
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted, seconds=4 * PATIENCE)


@pytest.mark.postgres
async def test_postgresql_may_be_stopped_and_started_under_load_t8_g1(postgres: OwnPostgres, tmp_path: Path) -> None:
    """503 with Retry-After while it is away; then on by itself, and nothing that was acknowledged is lost."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve(postgres.url, data_dir=tmp_path))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=60)
        )
        (await client.put("/v1/rooms/lab/jobs", json=JOB)).raise_for_status()
        loads = [Load(client) for _ in range(8)]
        running = [asyncio.create_task(load.run()) for load in loads]
        for how in ("fast", "immediate"):
            await loads[0].reached(20)
            await asyncio.to_thread(postgres.stop, how)
            wanted = sum(len(load.refusals) for load in loads) + 8
            await until(lambda wanted=wanted: sum(len(load.refusals) for load in loads) >= wanted, seconds=PATIENCE)
            assert (await client.get("/readyz")).status_code == 503
            await asyncio.to_thread(postgres.start)
        await loads[0].reached(20)
        for load in loads:
            load.is_over = True
        await asyncio.gather(*running)

        for load in loads:
            assert {unavailable(answer).partition("(")[0] for answer in load.refusals} <= {
                "the database does not answer "
            }
        acknowledged = [name for load in loads for name in load.acknowledged]
        assert await _kept(client) == sorted(acknowledged)
        await until(lambda: client.get("/readyz"), lambda found: found.status_code == 200, seconds=PATIENCE)


@pytest.mark.postgres
async def test_a_queue_of_notices_that_was_full_is_used_again_t8(postgres: OwnPostgres, tmp_path: Path) -> None:
    """PostgreSQL kept what all had read: no server was ready any more, however long the cause had been gone."""
    stranger = await asyncpg.connect(postgres.url)
    await stranger.execute("ALTER SYSTEM SET max_notify_queue_pages = 64")
    await stranger.close()
    await asyncio.to_thread(postgres.stop)
    await asyncio.to_thread(postgres.start)
    stranger, other = await asyncpg.connect(postgres.url), await asyncpg.connect(postgres.url)
    await stranger.execute("LISTEN anything")
    await stranger.execute("BEGIN; SELECT 1")
    with pytest.raises(asyncpg.ProgramLimitExceededError):
        for _ in range(100):
            await other.execute("SELECT pg_notify('other', repeat('x', 7000) || n) FROM generate_series(1, 20) AS n")
    await other.close()

    async with serve(postgres.url, data_dir=tmp_path) as served:
        client = httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=60)
        is_full = "end the session that listens"
        await until(lambda: client.get("/readyz"), lambda found: is_full in found.text, seconds=PATIENCE)
        await stranger.close()

        await until(lambda: client.get("/readyz"), lambda found: found.status_code == 200, seconds=PATIENCE)
        await client.aclose()


async def _kept(client: httpx.AsyncClient) -> list[str]:
    found: list[dict[str, Any]] = []
    while page := (await client.get("/v1/tasks", params={"limit": 500, "offset": len(found)})).json()["items"]:
        found += page
    return sorted(task["id"] for task in found)


HASTY = """
from treadle.cli import main
from treadle_server.serving import server

server.GRACE_SECONDS = server.ENDING_SECONDS = 0.2
main()
"""


@pytest.mark.postgres
async def test_a_server_stops_though_its_database_answers_nothing_t8(postgres: OwnPostgres, tmp_path: Path) -> None:
    """It waited for ever to write what was queued, however many signals came."""
    wire = DatabaseWire(postgres.url)
    await wire.listen()
    server = ServerProcess(tmp_path, wire.database_url)
    server.run_from(HASTY)
    await asyncio.to_thread(server.start)
    worker = WorkerProcess(server, "tests.chaos.marking")
    worker.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=PATIENCE) as client:
            await until(lambda: _has_worker(client))
            wire.silence()
            asked = asyncio.create_task(client.put("/v1/rooms/lab/jobs", json=JOB))
            # Two that come behind it are answered: it is there.
            for _ in range(2):
                (await client.get("/healthz")).raise_for_status()
            server.signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                answer, code = await asked, await server.ended()
    finally:
        wire.close()
        worker.kill()
        if not server.has_ended:
            server.kill()

    assert "the server stopped before it answered" in unavailable(answer)
    assert code == 0
    assert "the server exits without waiting for its database" in server.log.read_text()


async def _has_worker(client: httpx.AsyncClient) -> bool:
    return bool((await client.get("/v1/workers")).json()["total"])
