"""The run with which a task completed is told by the task's row until it runs again, and read as all others (E12)."""

import asyncio

import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.engine.conftest import Shop
from treadle.wire.status import Outcome, Reason, Status
from treadle_server.domain.tasks import RUN_FIELDS, Run, Task
from treadle_server.engine.commands import ReportMany, RunReport, Steer
from treadle_server.errors import StaleRun
from treadle_server.store.past_runs import past_runs
from treadle_server.store.read import targets as read_targets
from treadle_server.store.read.runs import of_task
from treadle_server.store.tables import runs
from treadle_server.store.tables import targets as targets_table
from treadle_server.store.transaction.load import to_run

pytestmark = pytest.mark.anyio


async def begun(shop: Shop, **options: object) -> Task:
    worker = await shop.worker()
    await shop.submit(options=options)
    [task] = await shop.claim(worker)
    return await shop.report(task, "started")


async def records(shop: Shop) -> list[int]:
    """Return which runs have a row of their own."""
    async with shop.engine.store.read() as connection:
        return list((await connection.execute(sa.select(runs.c.run_id).order_by(runs.c.run_id))).scalars())


async def ended(shop: Shop) -> list[Run]:
    """Return all runs that are over, wherever they stand."""
    everywhere = past_runs()
    async with shop.engine.store.read() as connection:
        rows = await connection.execute(sa.select(everywhere).order_by(everywhere.c.run_id))
        return [to_run(row) for row in rows]


def same(found: Run, before: Run) -> bool:
    return all(getattr(found, name) == getattr(before, name) for name in RUN_FIELDS)


async def test_a_completed_run_has_no_row_and_is_shown_all_the_same_e12(shop: Shop, clock: FakeClock) -> None:
    task = await begun(shop)
    clock.advance(2)
    done = await shop.report(task, "completed", result="1")

    assert await records(shop) == []
    async with shop.engine.store.read() as connection:
        [shown] = await of_task(connection, await shop.get(task.id))
    assert (shown.run_id, shown.status, shown.worker_id) == (0, Outcome.COMPLETED, task.worker_id)
    assert (shown.reason, shown.error, shown.traceback, shown.usage) == (None, None, None, None)
    assert (shown.claimed_at, shown.started_at) == (task.claimed_at, task.started_at)
    assert shown.ended_at == done.completed_at


async def test_a_run_that_did_not_complete_has_a_row_as_ever_e12(shop: Shop) -> None:
    task = await begun(shop, max_retries=1, retry_base=0)
    await shop.report(task, "failed", error="no", traceback="Traceback …")
    assert task.worker_id is not None
    [again] = await shop.claim(task.worker_id)
    await shop.run(again)

    assert await records(shop) == [0]
    assert [(run.run_id, run.status, run.error) for run in await ended(shop)] == [
        (0, Outcome.FAILED, "no"),
        (1, Outcome.COMPLETED, None),
    ]


async def test_a_task_that_is_run_again_keeps_the_run_that_its_row_told_g4(shop: Shop, clock: FakeClock) -> None:
    task = await begun(shop)
    clock.advance(1)
    await shop.report(task, "completed", result="1", usage=2.5)
    [before] = await ended(shop)

    again = await shop.steer(task, "rerun")

    assert (again.status, again.digest, await records(shop)) == (Status.PENDING, None, [0])
    [kept] = await ended(shop)
    assert same(kept, before)
    assert task.worker_id is not None
    clock.advance(1)
    [second] = await shop.claim(task.worker_id)
    await shop.run(second)
    assert await records(shop) == [0]
    kept, last = await ended(shop)
    assert same(kept, before)
    assert (last.run_id, last.status) == (1, Outcome.COMPLETED)
    assert last.claimed_at > before.claimed_at


async def test_what_completes_and_is_run_again_in_one_batch_has_its_run_kept_g4(shop: Shop) -> None:
    task = await begun(shop)

    # A usage lets the report go the way of all commands, in their order.
    rerun = Steer(principal=shop.principal, task_id=task.id, action="rerun")
    await asyncio.gather(shop.report(task, "completed", usage=1.5), shop.engine.run(rerun))

    assert await records(shop) == [0]
    assert [(run.run_id, run.status, run.usage) for run in await ended(shop)] == [(0, Outcome.COMPLETED, 1.5)]


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ({"usage": 0.25}, []),
        ({"usage": 0.0}, [0, 1]),  # the difference of two equal numbers would say that nothing was told
        ({"usage": 0.2}, [0, 1]),  # 0.1 + 0.2 - 0.1 is not 0.2
        ({"error": "it says why"}, [0, 1]),
    ],
    ids=["exact", "nothing", "rounded", "an error"],
)
async def test_what_a_tasks_row_could_not_tell_exactly_has_a_row_of_its_own_e12(shop: Shop, said, row) -> None:
    task = await begun(shop, max_retries=1, retry_base=0)
    await shop.report(task, "failed", error="no", usage=0.5 if row == [] else 0.1)
    assert task.worker_id is not None
    [again] = await shop.claim(task.worker_id)
    await shop.run(again, "completed", **said)

    assert await records(shop) == (row or [0])
    last = (await ended(shop))[-1]
    assert (last.run_id, last.usage, last.error) == (1, said.get("usage"), said.get("error"))


@pytest.mark.parametrize("how", ["completed", "fast-path", "run again"])
async def test_a_completion_that_is_sent_again_is_known_from_the_row_and_another_is_not_c7(shop: Shop, how) -> None:
    task = await begun(shop)
    if how == "fast-path":
        assert task.worker_id is not None
        said = [(task.id, task.run_id, RunReport(kind="completed", result="1"))]
        await shop.engine.run(ReportMany(principal=shop.principal, worker_id=task.worker_id, reports=said))
    else:
        await shop.report(task, "completed", result="1")
    if how == "run again":
        await shop.steer(task, "rerun")
    before = await shop.get(task.id)

    assert (await shop.report(task, "completed", result="1")).version == before.version
    with pytest.raises(StaleRun):
        await shop.report(task, "completed", result="2")
    with pytest.raises(StaleRun):
        await shop.report(task, "failed", reason=Reason.ERROR, error="no")
    assert await shop.get(task.id) == before


async def test_code_that_runs_on_after_its_completion_is_shown_to_hold_its_target_l7(shop: Shop) -> None:
    worker = await shop.worker()
    await shop.submit(target="press")
    [task] = await shop.claim(worker)
    done = await shop.run(task, "completed", code_runs=True)

    assert await records(shop) == []
    async with shop.engine.store.read() as connection:
        num = (await connection.execute(sa.select(targets_table.c.num))).scalar_one()
        [holder] = (await read_targets.holders(connection, [num]))[num]
    assert (holder.task_id, holder.cause, holder.since) == (task.id, "stopping", done.completed_at)
