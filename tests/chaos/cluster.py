"""Two servers on one PostgreSQL with four workers, each part of which may be killed and started again."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.chaos.processes import ServerProcess, WorkerProcess, stopped_at_the_end
from tests.servers.postgres import OwnPostgres

WORKERS = 4
CONCURRENCY = 15
NAME = "@global:tasks:labour"
PATIENCE = 60
"""Seconds for anything that is waited for."""


@dataclass
class Cluster:
    """What runs."""

    postgres: OwnPostgres
    servers: list[ServerProcess]
    marks: Path

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    @property
    def headers(self) -> dict[str, str]:
        # The superuser's token of either is one for the whole database.
        return self.servers[0].headers

    def lines(self, what: str) -> list[list[str]]:
        """What the tasks said so far."""
        if not self.marks.exists():
            return []
        said = [line.split() for line in self.marks.read_text().splitlines()]
        return [line for line in said if line[0] == what]

    async def until_ended(self, count: int) -> None:
        """Wait until so many tasks have ended."""
        async with asyncio.timeout(5 * PATIENCE):
            while len(self.lines("end")) < count:
                await asyncio.sleep(0.05)


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    """Run everything during the block."""
    postgres = OwnPostgres(directory)
    with ExitStack() as stack:
        postgres.start()
        stack.callback(postgres.stop)
        servers = []
        for name in ("a", "b"):
            (directory / name).mkdir()
            servers.append(ServerProcess(directory / name, postgres.url, TREADLE_SWEEPER_INTERVAL_SECONDS="1"))
            servers[-1].start()
            stack.enter_context(stopped_at_the_end(servers[-1]))
        running = Cluster(postgres, servers, directory / "marks")
        reached = {"TREADLE_URL": ",".join(running.urls), "TREADLE_TEST_MARKS": str(running.marks)}
        for i in range(WORKERS):
            module = "tests.chaos.marking"
            worker = WorkerProcess(servers[0], module, concurrency=CONCURRENCY, name=f"worker-{i}", **reached)
            worker.start()
            stack.enter_context(stopped_at_the_end(worker))
        yield running


async def asked(cluster: Cluster, method: str, path: str, **given: Any) -> Any:
    """Make a request that does no harm twice, at whichever server answers, until one does."""
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient(headers=cluster.headers, timeout=10) as client:
        while True:
            for url in cluster.urls:
                with contextlib.suppress(httpx.TransportError):
                    answer = await client.request(method, url + path, **given)
                    if answer.is_success:
                        return answer.json()
                    assert answer.status_code == 503, answer.text
            await asyncio.sleep(0.05)


async def submit(cluster: Cluster, count: int, seconds: float) -> list[str]:
    """Put the tasks in, 200 in a request, every tenth with one of five targets; return their ids."""
    names = [str(uuid4()) for _ in range(count)]
    for first in range(0, count, 200):
        tasks = []
        for n, name in list(enumerate(names))[first : first + 200]:
            target = f"t{n // 10 % 5}" if n % 10 == 0 else None
            payload = {"n": n, "seconds": 0.02 if target else seconds, "target": target}
            tasks.append({"job": NAME, "id": name, "payload": payload, **({"target": target} if target else {})})
        await asked(cluster, "POST", "/v1/rooms/@global/tasks", json={"tasks": tasks})
    return names


@dataclass
class Observer:
    """Follows every transition; reads all state anew whenever it is told to, or a stream ends."""

    cluster: Cluster
    completed: set[str] = field(default_factory=set)
    """What it knows to be completed: read when it was told to reload, and seen since."""
    told: Counter[str] = field(default_factory=Counter)
    since: dict[str, Any] | None = None

    async def follow(self, turn: int) -> None:
        """Follow for ever, at one server after the other."""
        while True:
            url = self.cluster.urls[turn % 2].replace("http", "ws", 1) + "/v1/session"
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                async with connect(url, additional_headers=self.cluster.headers, max_size=None) as socket:
                    await self._listen(socket)
            turn += 1
            await asyncio.sleep(0.05)

    async def _listen(self, socket: ClientConnection) -> None:
        since = {"since": self.since} if self.since else {}
        hello = {"op": "hello", "n": 0, "protocol": 1}
        await socket.send(json.dumps({"items": [hello, {"op": "every", "n": 1, "on": True, **since}]}))
        async for frame in socket:
            for item in json.loads(frame)["items"]:
                await self._take(item)

    async def _take(self, item: dict[str, Any]) -> None:
        if item.get("re") == 1 and self.since is None:
            # It begins here: what was before is read.
            await self._read()
            self.since = item["ok"]
        elif item.get("push") == "reload":
            self.told["reload"] += 1
            # A read that fails leaves it where it was: it is told to reload again.
            await self._read()
            self.since = {"stream": item["stream"], "seq": item["seq"]}
        elif item.get("push") == "events":
            self.since = {"stream": item["stream"], "seq": item["seq"]}
            self.told["events"] += len(item["events"])
            for event in item["events"]:
                if event["type"] == "task.updated" and event["task"]["status"] == "completed":
                    self.completed.add(event["task"]["id"])

    async def _read(self) -> None:
        self.completed = {task["id"] for task in await every_task(self.cluster, status="completed")}


async def every_task(cluster: Cluster, **wanted: str) -> list[dict[str, Any]]:
    """Every task: none is put in while it is read, so that the pages stand still."""
    found: list[dict[str, Any]] = []
    while True:
        page = await asked(cluster, "GET", "/v1/tasks", params={"limit": 500, "offset": len(found), **wanted})
        found += page["items"]
        if not page["items"]:
            return found


async def waited(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)


def overlapping(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Runs of one target that overlap, by what the tasks said themselves."""
    begun = {line[1]: (float(line[3]), line[2]) for line in cluster.lines("begin") if line[2] != "-"}
    spans: dict[str, list[tuple[float, float, str]]] = {}
    for _, n, target, at in cluster.lines("end"):
        if target != "-":
            spans.setdefault(target, []).append((begun[n][0], float(at), n))
    return [
        (target, before[2], after[2])
        for target, several in spans.items()
        for before, after in zip(sorted(several), sorted(several)[1:], strict=False)
        if after[0] < before[1]
    ]
