"""Measures what counting queues' rates, and keeping the last events, costs the server for a task.

`python -m tests.bench.rates --help`
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.report import show
from treadle.wire.ids import WorkerId
from treadle_server.access.principal import SYSTEM
from treadle_server.engine.commands import (
    RegisterJob,
    RegisterWorker,
    ReportMany,
    RunReport,
    Submission,
    SubmitEach,
)
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch, Listener
from treadle_server.services.rates import Rates
from treadle_server.services.recent import Recent
from treadle_server.store.store import SqlStore

JOB = "@global:tasks:noop"


class Timed:
    """A listener, and the time that it takes."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.seconds = 0.0

    def on_commit(self, batch: Batch) -> None:
        """Let it count a commit."""
        began = time.thread_time()
        self.listener(batch)
        self.seconds += time.thread_time() - began


async def _register(engine: Engine) -> WorkerId:
    worker = await engine.run(RegisterWorker(principal=SYSTEM))
    common = {"room": "@global", "category": "tasks", "name": "noop", "schema": "{}", "retain": True}
    await engine.run(RegisterJob(principal=SYSTEM, worker_id=worker.id, **common))
    return worker.id


async def work(engine: Engine, worker: WorkerId, tasks: int, at_once: int) -> None:
    """Put tasks in, claim, start and complete them, so many in each commit."""
    for _ in range(0, tasks, at_once):
        items = [Submission(job_name=JOB, payload="{}", content_hash=b"x") for _ in range(at_once)]
        await engine.run(SubmitEach(principal=SYSTEM, room="@global", items=items))
        claimed = await engine.claims.claim(SYSTEM, worker, most=at_once)
        for kind in ("started", "completed"):
            said = [(task.id, task.run_id, RunReport(kind=kind)) for task in claimed]
            await engine.run(ReportMany(principal=SYSTEM, worker_id=worker, reports=said))


async def measure(tasks: int, at_once: int) -> dict[str, float]:
    """Return microseconds of CPU time for a task, and how much of it counting and keeping take."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqlStore(f"sqlite:///{Path(directory) / 'treadle.db'}")
        await store.open()
        engine = Engine(store)
        async with engine.running():
            worker = await _register(engine)
            await work(engine, worker, at_once, at_once)
            counting, keeping = Timed(Rates(engine.clock).on_commit), Timed(Recent().on_commit)
            for timed in (counting, keeping):
                engine.hub.listen(timed.on_commit)
            began = time.process_time()
            await work(engine, worker, tasks, at_once)
            spent = time.process_time() - began
        await store.close()
    return {
        "tasks at once": at_once,
        "engine us/task": 1e6 * spent / tasks,
        "counting us/task": 1e6 * counting.seconds / tasks,
        "keeping us/task": 1e6 * keeping.seconds / tasks,
        "share %": 100 * (counting.seconds + keeping.seconds) / spent,
    }


def main() -> None:
    """Read the sizes and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    given = parser.parse_args()
    rows = [asyncio.run(measure(given.tasks, at_once)) for at_once in (1, 10, 100)]
    show("What counting rates and keeping events costs the engine (SQLite, without sockets)", rows, {})


if __name__ == "__main__":
    sys.exit(main())
