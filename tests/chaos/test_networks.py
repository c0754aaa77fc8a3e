"""Worker processes on a network that does everything that networks do, from their first connection on (N4)."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar, get_args

import pytest

from tests.chaos import burdens
from tests.chaos.processes import Process, ServerProcess, WorkerProcess, running_server, stopped_at_the_end
from tests.chaos.wires import Fault, Wire, wire_to
from treadle import Client

pytestmark = pytest.mark.anyio

AnyProcess = TypeVar("AnyProcess", bound=Process)

WORKERS = 3
FAULTS = 60
TASKS = 150


@asynccontextmanager
async def working(worker: AnyProcess) -> AsyncIterator[AnyProcess]:
    """Run a worker process during the block; one that has ended by itself fails the test, with what it said."""
    worker.start()
    try:
        yield worker
        assert not worker.has_died, worker.log.read_text()[-5000:]
    finally:
        await asyncio.to_thread(worker.stop)


async def _seen(worker: Process, question: Callable[[], bool]) -> None:
    async with asyncio.timeout(40):
        while not question():
            assert not worker.has_ended, worker.log.read_text()[-5000:]
            await asyncio.sleep(0.01)


def _said(worker: Process) -> str:
    return worker.log.read_text() if worker.log.exists() else ""


async def test_workers_that_start_against_broken_networks_wait_say_so_and_come_up_n4(tmp_path: Path) -> None:
    """One for each way in which theirs is broken; each meets with it several times, and says it a few times at most."""
    faults: list[Fault] = ["reset", "half-close", "stranger"]
    with running_server(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}") as server:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(server.url, server.token))
            wires = [await stack.enter_async_context(wire_to(server.url)) for _ in faults]
            workers = []
            for fault, wire in zip(faults, wires, strict=True):
                await wire.begin(fault)
                worker = WorkerProcess(server, "tests.chaos.burdens", name=fault, TREADLE_URL=wire.url)
                workers.append(await stack.enter_async_context(working(worker)))
            for wire, worker in zip(wires, workers, strict=True):
                await _seen(worker, lambda w=worker: "trying again" in _said(w))  # type: ignore[misc]
                await _seen(worker, lambda w=wire: w.met >= 6)  # type: ignore[misc]
                await wire.restore()

            for worker in workers:
                await _seen(worker, lambda w=worker: "is open for 1 job" in _said(w))  # type: ignore[misc]
            handles = await client.submit_many([burdens.burden.bind(n) for n in range(20)])
            assert [await handle.result(timeout=30) for handle in handles] == list(range(20))
        for worker in workers:
            assert _said(worker).count("trying again") <= 5, _said(worker)
            assert "Traceback" not in _said(worker), _said(worker)


async def test_a_worker_that_is_started_before_the_servers_first_start_comes_up_n4(tmp_path: Path) -> None:
    """There is no server, and no token yet; both come later."""
    server = ServerProcess(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}")
    worker = Process(["worker", "tests.chaos.burdens"], tmp_path / "worker.log", {
        "TREADLE_URL": server.url, "TREADLE_DATA_DIR": str(tmp_path), "TREADLE_TOKEN": "",
    })  # fmt: skip
    async with working(worker):
        await _seen(worker, lambda: "trying again" in _said(worker))
        with stopped_at_the_end(server):
            await asyncio.to_thread(server.start)
            async with Client(server.url, server.token) as client:
                assert await (await client.submit(burdens.burden.bind(7))).result(timeout=40) == 7
            assert not worker.has_ended
            await asyncio.to_thread(worker.stop)


@pytest.mark.crossed
async def test_three_workers_survive_sixty_faults_from_their_first_connection_on_n4(tmp_path: Path) -> None:
    seed = random.randrange(sys.maxsize)
    print(f"seed {seed}")
    chance = random.Random(seed)
    environment = {"TREADLE_SWEEPER_INTERVAL_SECONDS": "0.5", "TREADLE_SESSION_GRACE_SECONDS": "0.5"}
    with running_server(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", **environment) as server:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(server.url, server.token))
            wires = [await stack.enter_async_context(wire_to(server.url)) for _ in range(WORKERS)]
            for wire in wires:
                await wire.begin(chance.choice(get_args(Fault)))
            workers = [
                await stack.enter_async_context(
                    working(WorkerProcess(server, "tests.chaos.burdens", name=f"w{i}", TREADLE_URL=wire.url))
                )
                for i, wire in enumerate(wires)
            ]
            handles = await client.submit_many([burdens.burden.bind(n, chance.uniform(0, 1.0)) for n in range(TASKS)])

            await _torment(wires, chance)

            results = await asyncio.gather(*(handle.result(timeout=60) for handle in handles))
            assert results == list(range(TASKS))
            for worker in workers:
                said = worker.log.read_text()
                assert "Traceback" not in said, said[-5000:]


async def _torment(wires: list[Wire], chance: random.Random) -> None:
    """Do sixty things to the wires, each to one of them, and heal them all."""
    for n in range(FAULTS):
        wire = wires[n % len(wires)]
        await wire.begin(chance.choice(get_args(Fault)))
        # Long enough that it is met, if it can be; short enough that it also falls into what the last one has begun.
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.uniform(0.02, 0.2)):
                await wire.is_met.wait()
        if chance.random() < 0.5:
            await wire.restore()
    for wire in wires:
        await wire.restore()
