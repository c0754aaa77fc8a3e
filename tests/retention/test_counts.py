"""After random removals in the middle of everything else nothing is left over and every count is right (E12)."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.engine.test_invariants import Walk
from tests.retention.conftest import ended
from treadle.wire.runs import LogLine
from treadle.wire.status import TERMINAL, Status
from treadle_server.engine.commands.prune import PruneTasks
from treadle_server.services.rates import Rates
from treadle_server.services.retention import cutoffs_of
from treadle_server.store import tables
from treadle_server.store.read import jobs as read_jobs
from treadle_server.store.read.counts import by_job

pytestmark = pytest.mark.anyio

STEPS = 60

CHILDREN = (
    tables.runs,
    tables.holds,
    tables.task_logs,
    tables.artifacts,
    tables.task_dependencies,
    tables.webhook_deliveries,
)


class Removing(Walk):
    """The random walk of the engine's tests, in which a third of the requests end tasks or remove what has ended."""

    removed = 0

    async def request(self) -> None:
        draw = self.random.random()
        if draw < 0.15:
            await self._prune()
        elif draw < 0.35 and self.known:
            await self.shop.steer(self.random.choice(self.known), "cancel")
        else:
            await super().request()

    async def _prune(self) -> None:
        async with self.shop.engine.store.read() as connection:
            seqs = sorted((await connection.execute(sa.select(tables.tasks.c.seq))).scalars())
        some = self.random.sample(seqs, min(len(seqs), self.random.randint(1, 20)))
        age = timedelta(seconds=self.random.choice([0, 0, 5, 60]))
        statuses = self.random.sample(sorted(TERMINAL), self.random.randint(1, 3))
        cutoffs = cutoffs_of(dict.fromkeys(statuses, age), self.clock.now())
        done = await self.shop.engine.run(PruneTasks(seqs=sorted(some), cutoffs=cutoffs))
        gone = {task.seq for task in done.removed}
        self.removed += len(gone)
        self.known = [task for task in self.known if task.seq not in gone]
        self.held = [task for task in self.held if task.seq not in gone]
        self.run_rows = {key: row for key, row in self.run_rows.items() if key[0] not in gone}

    async def check(self) -> None:
        await super().check()
        async with self.shop.engine.store.read() as connection:
            for table in CHILDREN:
                parent = sa.select(tables.tasks.c.seq)
                key = table.c.seq if table is tables.task_specs else table.c.task_seq
                orphans = sa.select(sa.func.count()).where(key.not_in(parent))
                assert (await connection.execute(orphans)).scalar_one() == 0, table.name


@pytest.mark.parametrize("seed", range(3))
async def test_counts_equal_a_count_of_the_rows_and_nothing_is_orphaned_after_random_removals_e12(
    shop, clock, seed
) -> None:
    await shop.register("fair", fair="room")
    walk = Removing(shop, clock, seed)
    for _ in range(STEPS):
        await walk.step()

    assert walk.removed > 10


async def test_what_was_measured_of_a_queue_stays_as_it_was_when_its_tasks_go_e12(shop, clock) -> None:
    rates = Rates(clock)
    shop.engine.hub.listen(rates.on_commit)
    for status in (Status.COMPLETED, Status.FAILED, Status.COMPLETED):
        await ended(shop, status)
        clock.advance(7)
    async with shop.engine.store.read() as connection:
        job = await read_jobs.by_name(connection, shop.job, room="@global")
    rates.roll()
    before = rates.of(job)
    heard = []
    shop.engine.hub.listen(heard.append)

    cutoffs = cutoffs_of(dict.fromkeys(TERMINAL, timedelta()), clock.now())
    done = await shop.engine.run(PruneTasks(seqs=[1, 2, 3], cutoffs=cutoffs))

    assert len(done.removed) == 3
    assert rates.of(job) == before
    assert before["stats"]["run"]["n"] == 3
    [batch] = heard
    assert (batch.tasks, set(batch.pruned)) == ([], {task.id for task in done.removed})
    async with shop.engine.store.read() as connection:
        assert await by_job(connection, [job.num]) in ({}, {job.num: {}})


async def test_logs_of_a_removed_task_are_no_others_e12(shop) -> None:
    """A line keeps the number of its task: were numbers given twice, a new task would show the old one's log."""
    first = await ended(shop)
    await shop.submit()
    [claimed] = await shop.claim(shop.workers[0])
    await shop.report(claimed, "started")
    await shop.report(claimed, "logs", lines=[LogLine(message="mine")])
    cutoffs = cutoffs_of(dict.fromkeys(TERMINAL, timedelta()), shop.engine.clock.now())

    await shop.engine.run(PruneTasks(seqs=[first.seq, claimed.seq], cutoffs=cutoffs))

    async with shop.engine.store.read() as connection:
        kept = (await connection.execute(sa.select(tables.task_logs.c.task_seq, tables.task_logs.c.message))).all()
    assert kept == [(claimed.seq, "mine")]
