"""Limits from inside: 10,000 keys and 20 workers under two servers, whose processes are killed and whose lines break.

Each server has its own time of day, one an hour ahead. What ran at once is told by the tasks themselves; what a rate
let begin, by the database's own times.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from tests.chaos.limited import BURST, PLACES, RATE, inside, paced
from tests.chaos.processes import Process, ServerProcess, WorkerProcess, stopped_at_the_end
from tests.chaos.wires import Wire
from tests.servers.postgres import OwnPostgres
from tests.storm import shifted
from tests.storm.wires import forgetful
from tests.waiting import until
from treadle import Client
from treadle_server.store.past_runs import past_runs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import limit_uses, tasks

pytestmark = [pytest.mark.anyio, pytest.mark.postgres, pytest.mark.soak, pytest.mark.timeout(1_500)]

WORKERS, PROCESSES = 20, 5
KEYS, TASKS = 10_000, 10_500
SECONDS = 90.0
"""How long processes are killed."""
CALM = 10.0
"""Seconds after the last fault until all of it is over."""
AHEAD = {"a": "+0", "b": "+3600"}
"""Seconds by which the servers' times of day are off."""
FAULTS = ("reset", "blackhole", "half-close", "torn", "delay")


class Span(NamedTuple):
    """How long a task was surely inside, under which key."""

    began: float
    ended: float
    key: str


@dataclass
class Place:
    """What runs, and which processes were killed when."""

    database_url: str
    marks: Path
    servers: list[ServerProcess] = field(default_factory=list)
    workers: list[WorkerProcess] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    died: dict[int, float] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def kill(self, process: Process) -> None:
        self.died[process.pid] = time.monotonic()
        process.kill()

    def spans(self) -> list[Span]:
        """Return what the tasks said; one that did not end was inside until its process was killed."""
        found: list[Span] = []
        begun: dict[tuple[str, str], float] = {}
        for what, pid, key, at in (line.split() for line in self.marks.read_text().splitlines()):
            if what == "begin":
                begun[pid, key] = float(at)
            else:
                found.append(Span(begun.pop((pid, key)), float(at), key))
        return [*found, *(Span(at, self.died[int(pid)], key) for (pid, key), at in begun.items())]


@asynccontextmanager
async def place(directory: Path) -> AsyncIterator[Place]:
    """Run everything during the block."""
    async with AsyncExitStack() as stack:
        postgres = OwnPostgres(directory)
        postgres.start()
        stack.callback(postgres.stop)
        here = Place(postgres.url, directory / "marks")
        for name, off in AHEAD.items():
            (directory / name).mkdir()
            (directory / f"{name}.clock").write_text(off)
            seam = {shifted.FILE: str(directory / f"{name}.clock"), "TREADLE_SWEEPER_INTERVAL_SECONDS": "1"}
            server = ServerProcess(directory / name, postgres.url, TREADLE_SESSION_GRACE_SECONDS="2", **seam)
            server.run_from("from tests.storm.shifted import main; main()")
            stack.enter_context(stopped_at_the_end(server))
            await asyncio.to_thread(server.start)
            here.servers.append(server)
        for n in range(PROCESSES):
            stack.enter_context(stopped_at_the_end(await work(here, stack, n)))
        yield here


async def work(here: Place, stack: AsyncExitStack, n: int) -> WorkerProcess:
    """Start a process of workers; every other one reaches the servers through lines that may break."""
    urls = [server.url for server in here.servers]
    if n % 2:
        lines = [forgetful(Wire(url)) for url in urls]
        for line in lines:
            await line.listen()
            stack.callback(line.close)
        here.wires += lines
        urls = [line.url for line in lines]
    names = ",".join(f"worker-{n}" for n in range(n, WORKERS, PROCESSES))
    told = {"TREADLE_TEST_WORKERS": names, "TREADLE_TEST_MARKS": str(here.marks), "TREADLE_URL": ",".join(urls)}
    worker = WorkerProcess(here.servers[0], "tests.chaos.limited", name=f"workers-{n}", **told)
    worker.run_from("from tests.chaos.limited import main; main()")
    here.workers.append(worker)
    worker.start()
    return worker


async def trouble(here: Place, chance: random.Random) -> None:
    """Kill workers and servers, one at a time, and break lines, for so long; in the end all is whole."""
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        await asyncio.sleep(chance.uniform(0.5, 3))
        match chance.choice(("worker", "worker", "server", "line", "line")):
            case "worker":
                worker = chance.choice(here.workers)
                here.kill(worker)
                worker.start()
                here.kills["workers"] += 1
            case "server":
                server = chance.choice(here.servers)
                here.kill(server)
                await asyncio.to_thread(server.start)
                here.kills["servers"] += 1
            case _:
                wire = chance.choice(here.wires)
                await wire.begin(chance.choice(FAULTS))  # type: ignore[arg-type]
                await asyncio.sleep(chance.uniform(0.1, 1))
                await wire.restore()
                here.kills["lines"] += 1


async def submit(client: Client, chance: random.Random) -> None:
    """Put in a task for each key, some for few keys, and as many as the rate is good for."""
    keys = [f"k{n % KEYS if n < KEYS else n % 7}" for n in range(TASKS)]
    bounds = [inside.bind(n, key, chance.uniform(0.1, 0.6)) for n, key in enumerate(keys)]
    await client.submit_many([paced.bind(n) for n in range(int(BURST + RATE * (SECONDS + 150)))])
    for first in range(0, TASKS, 500):
        await client.submit_many(bounds[first : first + 500])


async def all_have_ended(client: Client) -> bool:
    counts = (await client.stats()).counts
    return bool(counts.get("completed")) and not any(n for status, n in counts.items() if status != "completed")


def most_at_once(spans: Iterable[Span]) -> int:
    """Return how many were inside at once."""
    changes = sorted((at, change) for span in spans for at, change in ((span.began, 1), (span.ended, -1)))
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


async def claims_of_the_rate(url: str) -> tuple[list[datetime], int]:
    """Return when runs of the rate's job were claimed that took a token, and how many places are still counted."""
    store = SqlStore(url)
    try:
        async with store.read() as connection:
            over = past_runs()
            claims = (
                sa.select(over.c.claimed_at)
                .join_from(over, tasks, over.c.task_seq == tasks.c.seq)
                .where(tasks.c.job_name.like("%:paced"), sa.func.coalesce(over.c.reason, "") != "returned")
                .order_by(over.c.claimed_at)
            )
            left = (await connection.execute(sa.select(sa.func.count()).select_from(limit_uses))).scalar_one()
            return list((await connection.execute(claims)).scalars()), int(left)
    finally:
        await store.close()


class Pace(NamedTuple):
    """What a rate let begin."""

    least_left: float
    """Of the tokens that there were, if a full bucket was filled by the rate alone; less than none is too many."""
    share: float
    """Of what fills in the minute after the last fault, what was claimed."""


def pace_of(claims: Sequence[datetime], calm_at: datetime) -> Pace:
    """Return how claims kept the rate."""
    tokens, last, least = float(BURST), claims[0], float(BURST)
    for at in claims:
        tokens = min(float(BURST), tokens + (at - last).total_seconds() * RATE) - 1
        last, least = at, min(least, tokens)
    minute = sum(calm_at <= at < calm_at + timedelta(minutes=1) for at in claims)
    return Pace(least, minute / (RATE * 60))


async def test_ten_thousand_keys_under_two_servers_that_die_never_have_one_too_many_f1_g11(tmp_path: Path) -> None:
    chance = random.Random(20)
    async with place(tmp_path) as here:
        urls = ",".join(server.url for server in here.servers)
        async with Client(urls, here.servers[0].token, patience=60) as client, asyncio.TaskGroup() as group:
            began = time.monotonic()
            group.create_task(submit(client, chance))
            await trouble(here, chance)
            # What a killed worker had claimed and not begun may have taken its token with it, or not: so the minute
            # that is counted begins when the last of them is known.
            calm_at = datetime.now(UTC) + timedelta(seconds=CALM)
            await until(lambda: all_have_ended(client), seconds=1_200, pause=0.5)
            took = time.monotonic() - began
        spans = here.spans()
        claims, left = await claims_of_the_rate(here.database_url)

    by_key: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_key[span.key].append(span)
    pace = pace_of(claims, calm_at)
    most = most_at_once(spans)
    print(f"{here.kills} in {took:.0f} s; {len(spans)} runs, at most {most} of {PLACES} at once; {pace}")
    assert len(by_key) == KEYS
    assert {most_at_once(of_key) for of_key in by_key.values()} == {1}
    assert most <= PLACES
    assert left == 0, "places of what has ended"
    assert pace.least_left > -0.01 * RATE
    assert claims[-1] > calm_at + timedelta(minutes=1)
    assert abs(pace.share - 1) < 0.01
