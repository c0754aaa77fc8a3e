"""Two engines on one PostgreSQL: the guarantees of one (G11), above all that of targets (G5)."""

import asyncio
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.engine.conftest import ADMIN, Shop, look
from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Submission, Submit
from treadle_server.errors import InvalidTaskTransition
from treadle_server.store.transaction.flush import LostUpdate

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


async def test_a_target_that_another_server_decides_about_is_left_alone_and_not_waited_for_g5_l2(shops) -> None:
    shop, other = shops
    worker = await shop.worker()
    [mine] = await shop.submit(target="a")
    [free] = await shop.submit(target="b")

    async with other.engine.store.write() as tx:
        await tx.connection.execute(sa.text("SELECT num FROM targets WHERE name = 'a' FOR UPDATE"))
        async with asyncio.timeout(20):
            meanwhile = await shop.claim(worker, 2)

    await look(shop)
    assert [task.id for task in meanwhile] == [free.id]
    assert [task.id for task in await shop.claim(worker, 2)] == [mine.id]


@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_a_transaction_that_is_broken_off_for_another_is_known_as_one_g11(shops, state) -> None:
    with pytest.raises(LostUpdate):
        async with shops[0].engine.store.write() as tx:
            await tx.connection.execute(sa.text(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$"))


async def test_a_batch_that_was_broken_off_is_done_anew_and_answered_g11(shops, monkeypatch) -> None:
    """As if the deadlock had been found; what was written before is gone with its transaction."""
    from treadle_server.engine import applying as module

    shop, write, tries = shops[0], module.write, []

    async def broken_off_once(work) -> None:
        await write(work)
        tries.append(work)
        if len(tries) == 1:
            await work.tx.connection.execute(sa.text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$"))

    monkeypatch.setattr(module, "write", broken_off_once)

    [task] = await shop.submit(target="a")

    assert len(tries) == 2
    assert (await shop.get(task.id)).status is Status.PENDING


TARGETS = 3
TASKS = 8


async def work(shop: Shop, worker, live: dict[str, str], log: list[Task]) -> None:
    """Claim and run until everything is done; every third run fails, and is tried again at once."""
    while len({task.id for task in log}) < TARGETS * TASKS:
        await look(shop)
        for task in await shop.claim(worker, 2):
            assert task.target not in live, "two runs of one target at once"
            live[task.target] = task.id
            await shop.report(task, "started")
            await asyncio.sleep(0)
            del live[task.target]
            if task.run_id == 0 and task.seq % 3 == 0:
                await shop.report(task, "failed", reason=Reason.ERROR, error="x")
            else:
                await shop.report(task, "completed")
                log.append(task)


async def unsettle(shop: Shop, tasks: list[Task], log: list[Task]) -> None:
    """Pause waiting tasks and resume them, through another server than the one that may be claiming them."""
    while len({task.id for task in log}) < TARGETS * TASKS:
        for task in tasks[::4]:
            for verb in ("pause", "resume"):
                try:
                    if (await shop.get(task.id)).status in {Status.PENDING, Status.PAUSED}:
                        await shop.steer(task, verb)
                except InvalidTaskTransition:
                    continue


async def test_two_servers_run_each_targets_tasks_one_at_a_time_and_lose_none_g5_g11_l2(shops) -> None:
    first, second = shops
    workers = [await first.worker(), await second.worker(), await second.worker()]
    options = {"max_retries": 2, "retry_base": 0}
    per_target = [
        shop.submit(TASKS // 2, target=f"t{n}", options=options) for n in range(TARGETS) for shop in (first, second)
    ]
    tasks = [task for submitted in await asyncio.gather(*per_target) for task in submitted]
    live: dict[str, str] = {}
    log: list[Task] = []

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        for shop, worker in zip((first, second, second), workers, strict=True):
            group.create_task(work(shop, worker, live, log))
        group.create_task(unsettle(first, tasks, log))
        group.create_task(unsettle(second, tasks[1:], log))

    assert sorted(task.id for task in log) == sorted(task.id for task in tasks)
    for task in tasks:
        assert (await first.get(task.id)).status is Status.COMPLETED


@pytest.mark.parametrize("count", [1, 300])
async def test_who_holds_unique_keys_is_asked_in_one_statement_however_many_they_are_l9(
    shops, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    asked: list[str] = []
    fetch = asyncpg.Connection.fetch

    async def noting(connection: Any, statement: str, *values: Any) -> Any:
        asked.append(statement)
        return await fetch(connection, statement, *values)

    monkeypatch.setattr(asyncpg.Connection, "fetch", noting)
    items = [
        Submission(job_name=shops[0].job, payload="{}", content_hash=b"x", unique_key=f"k{n}") for n in range(count)
    ]
    first = await shops[0].engine.run(Submit(principal=ADMIN, room="@global", items=items))
    before = len(asked)
    again = await shops[1].engine.run(Submit(principal=ADMIN, room="@global", items=items))

    assert [one.task.id for one in again] == [one.task.id for one in first]
    assert sum("unique_key =" in statement for statement in asked[before:]) == 2, "to lock them, and to read them"
