"""A server that is killed without warning in the middle of a drain: what it acknowledged as completed stays so."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
import sqlalchemy as sa
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.chaos.processes import ServerProcess, running_server
from treadle_server.store.past_runs import past_runs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TASKS = 3_000
ENOUGH = 900
"""Acknowledged completions after which the server is killed, in the middle of all that is under way."""

CONCURRENCY = 100
JOB = {"room": "@global", "category": "tasks", "name": "noop", "schema": {}, "retain": True, "lease_seconds": 3,
       "max_requeues": 5}  # fmt: skip
"""What the first worker held and could not report is lost with its lease, and goes to the second."""

NAME = "@global:tasks:noop"


@dataclass
class Drained:
    """What one worker was handed, and which of its completions were acknowledged."""

    worker: str
    claimed: list[str] = field(default_factory=list)
    results: dict[str, dict[str, object]] = field(default_factory=dict)
    """By task: what was reported, whether that was acknowledged or not."""
    acknowledged: set[str] = field(default_factory=set)
    refused: list[dict] = field(default_factory=list)


class Worker:
    """A worker on the bare socket: it reports each claim as completed at once, with a result of its own."""

    def __init__(self, name: str, socket: ClientConnection) -> None:
        self.drained = Drained(name)
        self._socket = socket
        self._asked: dict[int, list[str]] = {}

    async def open(self) -> None:
        opened = {"op": "open", "n": 1, "worker": {"name": self.drained.worker, "concurrency": CONCURRENCY}}
        await self._send({"op": "hello", "n": 0, "protocol": 1}, opened | {"jobs": [JOB]})

    async def _send(self, *items: dict) -> None:
        await self._socket.send(json.dumps({"items": items}))

    async def take(self, frame: str | bytes) -> None:
        """Heed the answers of a frame, and report what it hands out."""
        claims = []
        for item in json.loads(frame)["items"]:
            if item.get("push") == "claim":
                claims += item["tasks"]
            elif item.get("re", 0) > 1:
                self._heed(item)
            else:
                assert "problem" not in item, item
        if claims:
            await self._report(claims)

    def _heed(self, item: dict) -> None:
        names = self._asked.pop(item["re"])
        refused = {one["index"]: one for one in item["ok"]["refused"]}
        self.drained.refused += refused.values()
        self.drained.acknowledged.update(name for i, name in enumerate(names) if i not in refused)

    async def _report(self, claims: list[dict]) -> None:
        reports = []
        for claim in claims:
            result = {"of": claim["payload"]["n"], "by": self.drained.worker}
            self.drained.claimed.append(claim["id"])
            self.drained.results[claim["id"]] = result
            ending = {"kind": "completed", "starts": True, "result": result}
            reports.append({"task_id": claim["id"], "run_id": claim["run_id"], **ending})
        n = 2 + len(self.drained.claimed)
        self._asked[n] = [claim["id"] for claim in claims]
        await self._send({"op": "reports", "n": n, "brief": True, "reports": reports})


@asynccontextmanager
async def working(server: ServerProcess, name: str) -> AsyncIterator[tuple[Worker, ClientConnection]]:
    async with connect(server.socket_url, additional_headers=server.headers, max_size=None) as socket:
        worker = Worker(name, socket)
        await worker.open()
        yield worker, socket


def submit(server: ServerProcess) -> None:
    """Put the tasks in, 500 in a request."""
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=60) as client:
        job = {name: value for name, value in JOB.items() if name != "room"}
        client.put("/v1/rooms/@global/jobs", json=job).raise_for_status()
        for first in range(0, TASKS, 500):
            many = [{"job": NAME, "payload": {"n": n}} for n in range(first, first + 500)]
            client.post("/v1/rooms/@global/tasks", json={"tasks": many}).raise_for_status()


async def drain_until_killed(server: ServerProcess) -> Drained:
    """Drain; kill the server when `ENOUGH` completions are acknowledged, and read what it had sent before."""
    is_killed = False
    async with working(server, "first") as (worker, socket):
        try:
            async for frame in socket:
                await worker.take(frame)
                if len(worker.drained.acknowledged) >= ENOUGH and not is_killed:
                    is_killed = True
                    server.kill()
        except ConnectionClosed:
            assert is_killed, "nobody but the test ends the server"
    return worker.drained


async def drain_the_rest(server: ServerProcess, left: int) -> Drained:
    """Drain with a new worker until nothing is left."""
    async with asyncio.timeout(60), working(server, "second") as (worker, socket):
        async for frame in socket:
            await worker.take(frame)
            if len(worker.drained.acknowledged) >= left:
                return worker.drained
    raise AssertionError("the server ended the connection")


@dataclass
class Kept:
    """What stands in the database."""

    status: dict[str, str]
    result: dict[str, dict[str, object]]
    completed_runs: Counter[str]


async def look(database_url: str) -> Kept:
    """Read every task and run from the database itself, not through the server's memory."""
    store = SqlStore(database_url)
    try:
        async with store.read() as connection:
            rows = (await connection.execute(sa.select(tasks.c.id, tasks.c.status, tasks.c.result))).all()
            runs = past_runs()
            ended = sa.select(tasks.c.id).join_from(runs, tasks, runs.c.task_seq == tasks.c.seq)
            names = (await connection.execute(ended.where(runs.c.status == "completed"))).scalars()
            completed = Counter(str(name) for name in names)
    finally:
        await store.close()
    return Kept(
        {str(row.id): row.status for row in rows},
        {str(row.id): json.loads(row.result) for row in rows if row.result is not None},
        completed,
    )


async def test_g1_no_acknowledged_completion_is_lost_by_kill_9_in_the_middle_of_a_drain(tmp_path, database_url) -> None:
    """G1, G3: it is there with its result and one completed run, is not handed out again, and the rest is drained."""
    with running_server(tmp_path, database_url, TREADLE_SWEEPER_INTERVAL_SECONDS="0.5") as server:
        submit(server)
        first = await drain_until_killed(server)
        kept = await look(database_url)

        assert ENOUGH <= len(first.acknowledged) < TASKS
        assert first.refused == []
        assert {kept.status[name] for name in first.acknowledged} == {"completed"}
        assert {name: kept.result[name] for name in first.acknowledged} == {
            name: first.results[name] for name in first.acknowledged
        }
        completed = {name for name, status in kept.status.items() if status == "completed"}
        assert kept.completed_runs == Counter(completed), "one for each, and none of what is not completed"
        assert completed <= set(first.claimed)

        server.start()
        second = await drain_the_rest(server, TASKS - len(completed))
        server.kill()

    assert not completed & set(second.claimed), "what is completed is never handed out again"
    assert Counter(second.claimed) == Counter(kept.status.keys() - completed)
    assert second.refused == []
    done = await look(database_url)
    assert Counter(done.status.values()) == {"completed": TASKS}
    assert done.completed_runs == Counter(done.status.keys()), "each exactly once"
    assert done.result == {**first.results, **second.results} | {name: first.results[name] for name in completed}
