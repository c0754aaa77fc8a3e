"""Sweeps find what is due by an index, however many runs are leased, and take nothing when the clock has jumped."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from treadle.wire.status import LEASED as LEASED_STATES
from treadle.wire.status import Reason, Status, WorkerState
from treadle_server.engine import locking, reading
from treadle_server.engine.commands import Beat, ExpireLeases, ReleaseHolds, RestampPresent, SweepWorkers, sweeps
from treadle_server.services import sweeper as sweeper_module
from treadle_server.services.sweeper import Sweeper
from treadle_server.store.read.workers import get
from treadle_server.store.tables import status_in, task_specs
from treadle_server.store.tables import tasks as task_table

pytestmark = pytest.mark.anyio

LEASED = 100_000
HOUR = {"lease_seconds": 3600.0, "start_timeout": 3600.0, "timeout": 3600.0}


@pytest.fixture
def sweeper(shop) -> Sweeper:
    return Sweeper(shop.engine, interval=5, worker_timeout=7200)


def _copies(dialect: str, seq: int, mark: int, count: int) -> Iterator[str]:
    """Yield SQL that puts in the task once more, so many times over, all leased as it is."""
    line = f"generate_series(0, {count - 1}) AS line (n)"
    new_id = f"('{mark}' || lpad(to_hex(n), 7, '0') || '-0000-7000-8000-000000000000')::uuid"
    if dialect == "sqlite":
        counted = f"WITH RECURSIVE line (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM line WHERE n < {count - 1})"
        line, new_id = f"({counted} SELECT n FROM line)", f"printf('{mark}%07x-0000-7000-8000-000000000000', n)"
    other = {"seq": f"{mark} * 1000000 + n", "id": new_id}
    for table in (task_table, task_specs):
        names = list(table.c.keys())
        values = ", ".join(other.get(name, name) for name in names)
        copied = f"SELECT {values} FROM {table.name}, {line} WHERE seq = {seq}"
        yield f"INSERT INTO {table.name} ({', '.join(names)}) {copied}"


async def _lease(shop: Any, count: int) -> None:
    """Have so many runs leased for an hour: half of them may run that long, half have that long to start."""
    worker = await shop.worker()
    await shop.submit(2, options=HOUR)
    running, claimed = await shop.claim(worker, 2)
    await shop.report(running, "started")
    async with shop.engine.store.write() as tx:
        for mark, task in enumerate((running, claimed), start=1):
            for statement in _copies(tx.dialect, task.seq, mark, count // 2):
                await tx.connection.exec_driver_sql(statement)


@pytest.mark.soak
async def test_among_100_000_leased_runs_two_limits_are_met_and_all_are_stamped_anew_in_steps_t5_e8(
    shop, clock, sweeper
) -> None:
    await _lease(shop, LEASED)
    worker = await shop.worker()
    await shop.submit(options=HOUR | {"timeout": 1.0})
    await shop.submit(options=HOUR | {"start_timeout": 1.0})
    overlong, unstarted = await shop.claim(worker, 2)
    await shop.report(overlong, "started")
    clock.advance(3000)
    longest, run = 0, shop.engine.run

    async def watched(command: Any) -> Any:
        nonlocal longest
        longest = max(longest, command.rows)
        return await run(command)

    shop.engine.run = watched
    await sweeper.turn()

    async with shop.engine.store.read() as connection:
        until = sa.func.min(task_table.c.taken_until), sa.func.max(task_table.c.taken_until), sa.func.count()
        found = (await connection.execute(sa.select(*until))).one()
    assert tuple(found) == (*[clock.now() + timedelta(hours=1)] * 2, LEASED + 4)
    assert longest <= 2_000

    clock.advance(6)
    await sweeper.turn()

    assert (await shop.get(overlong.id)).reason is Reason.TIMEOUT
    assert (await shop.get(unstarted.id)).reason is Reason.START_TIMEOUT
    async with shop.engine.store.read() as connection:
        counted = await connection.execute(sa.select(sa.func.count(task_table.c.seq)).where(status_in(*LEASED_STATES)))
        assert counted.scalar() == LEASED + 2


@pytest.mark.parametrize("jump", [60, -60])
async def test_the_limits_of_a_run_move_with_a_clock_that_jumps(shop, clock, sweeper, jump) -> None:
    worker = await shop.worker()
    await shop.submit(2, options={"timeout": 100.0, "start_timeout": 100.0})
    running, claimed = await shop.claim(worker, 2)
    await shop.report(running, "started")
    await sweeper.turn()
    clock.jump(jump)
    await sweeper.turn()
    for _ in range(18):
        clock.advance(5)
        await shop.engine.run(Beat(principal=shop.principal, worker_id=worker))
        await sweeper.turn()
    assert [(await shop.get(task.id)).status for task in (running, claimed)] == [Status.RUNNING, Status.CLAIMED]

    for _ in range(4):
        clock.advance(5)
        await shop.engine.run(Beat(principal=shop.principal, worker_id=worker))
        await sweeper.turn()

    assert [(await shop.get(task.id)).reason for task in (running, claimed)] == [Reason.TIMEOUT, Reason.START_TIMEOUT]


async def test_a_clock_that_jumps_in_the_middle_of_a_sweep_takes_nothing_from_anybody_l5(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(options={"lease_seconds": 15.0})
    [claimed] = await shop.claim(worker)
    until = clock.now() + timedelta(seconds=5)

    clock.jump(3600)

    assert await shop.engine.run(ExpireLeases(until=until)) == 0
    assert await shop.engine.run(ReleaseHolds(until)) == 0
    assert await shop.engine.run(SweepWorkers(60, until)) == []
    assert (await shop.get(claimed.id)).status is Status.CLAIMED
    assert await shop.engine.run(ExpireLeases()) == 1


async def test_many_workers_are_lost_and_restamped_in_several_steps(shop, clock, sweeper, monkeypatch) -> None:
    """10,000 that were lost at the same time held the writer for 0.4 s, and 20,000 at a server's start for 0.7."""
    for module in (locking, reading, sweeps, sweeper_module):
        monkeypatch.setattr(module, "MOST_WORKERS", 2)
    workers = [await shop.worker() for _ in range(5)]
    asked, run = [], shop.engine.run
    monkeypatch.setattr(shop.engine, "run", lambda command: asked.append(command) or run(command))
    clock.advance(7000)

    await sweeper.turn()

    assert sum(isinstance(command, RestampPresent) for command in asked) == 3
    clock.advance(300)
    assert await run(SweepWorkers(7200)) == [], "they were all restamped"
    sweeper._last = (clock.monotonic(), clock.now().timestamp())
    clock.advance(7000)
    sweeper._last = (clock.monotonic(), clock.now().timestamp())
    await sweeper.turn()

    assert sum(isinstance(command, SweepWorkers) for command in asked) == 3
    async with shop.engine.store.read() as connection:
        found = [await get(connection, worker) for worker in workers]
    assert {worker.state for worker in found} == {WorkerState.LOST}


async def test_a_timeout_is_met_within_one_sweep_interval(shop, clock) -> None:
    sweeper = Sweeper(shop.engine, interval=5, worker_timeout=7200)
    worker = await shop.worker()
    await sweeper.turn()
    await shop.submit(options=HOUR | {"timeout": 4.0})
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.advance(5)

    pause = await sweeper.turn()
    assert (await shop.get(claimed.id)).status is Status.RUNNING
    assert pause == pytest.approx(1.0)
    clock.advance(pause)
    await sweeper.turn()

    assert (await shop.get(claimed.id)).reason is Reason.TIMEOUT
