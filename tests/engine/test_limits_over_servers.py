"""Limits under two servers of one PostgreSQL: counted from inside, by what runs at once and by what begins (G11)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.engine.conftest import Shop, look
from tests.engine.test_limits import named, set_limit
from tests.waiting import until
from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import OpenLimits
from treadle_server.store.transaction.limit_rows import lock_limits

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

TASKS = 12
CONCURRENCY = 2


async def work(shop: Shop, worker, live: set[str], done: list[Task]) -> None:
    """Claim and run until everything is done; every third run fails, and is tried again at once."""
    while len(done) < TASKS:
        await look(shop)
        claimed = await shop.claim(worker, 3)
        live.update(task.id for task in claimed)
        for task in claimed:
            assert len(live) <= CONCURRENCY, "more at once than the limit allows"
            await shop.report(task, "started")
            await asyncio.sleep(0)
            live.discard(task.id)
            if task.run_id == 0 and task.seq % 3 == 0:
                await shop.report(task, "failed", reason=Reason.ERROR, error="x")
            else:
                await shop.report(task, "completed")
                done.append(task)


async def test_two_servers_never_run_more_at_once_than_a_limit_allows_and_forget_none_g11(shops) -> None:
    first, second = shops
    await set_limit(first, concurrency=CONCURRENCY)
    options = {"max_retries": 2, "retry_base": 0}
    # Of two queues, each of which lets as many through as there is room: who claims counts anew.
    other = await first.register("other")
    workers = [await shop.worker(shop.job, other) for shop in (first, second, second)]
    submits = [
        shop.submit(TASKS // 2, job=job, limits=named(), options=options)
        for shop, job in ((first, first.job), (second, other))
    ]
    tasks = [task for submitted in await asyncio.gather(*submits) for task in submitted]
    live: set[str] = set()
    done: list[Task] = []

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        for shop, worker in zip((first, second, second), workers, strict=True):
            group.create_task(work(shop, worker, live, done))

    assert sorted(task.id for task in done) == sorted(task.id for task in tasks)
    for task in tasks:
        assert (await first.get(task.id)).status is Status.COMPLETED


async def test_two_servers_begin_no_more_than_a_rate_has_tokens_and_all_of_that_g11(shops, clock) -> None:
    await set_limit(shops[0], rate=(3, 30), burst=2)
    workers = [await shop.worker() for shop in shops]
    await asyncio.gather(*(shop.submit(4, limits=named()) for shop in shops))

    begun = []
    for seconds in (0, 10, 5, 5, 100):
        clock.advance(seconds)
        await shops[0].engine.run(OpenLimits())
        for shop in shops:
            await look(shop)
        found = await asyncio.gather(*(shop.claim(w, 5) for shop, w in zip(shops, workers, strict=True)))
        begun.append(sum(map(len, found)))

    assert begun == [2, 1, 0, 1, 2]


async def test_a_task_that_another_server_had_at_hand_is_let_through_soon_g11(shops, clock) -> None:
    first, second = shops
    await set_limit(first, concurrency=1)
    worker = await first.worker()
    runs, waits = await first.submit(2, limits=named())
    [claimed] = await first.claim(worker, 2)
    await first.report(claimed, "started")

    async with second.engine.store.write() as tx:
        # As who submits it again, or waits for it, has it: nothing of it changes, and so none of its line.
        await tx.connection.execute(sa.text("SELECT seq FROM tasks WHERE seq = :seq FOR UPDATE"), {"seq": waits.seq})
        await first.report(claimed, "completed")
    assert (claimed.id, await first.claim(worker)) == (runs.id, [])
    clock.advance(0.1)
    await first.engine.run(OpenLimits())

    assert [task.id for task in await first.claim(worker)] == [waits.id]
    assert await first.engine.run(OpenLimits()) == 0


async def test_who_changes_a_limit_holds_nothing_that_others_wait_for_who_decide_about_limits(shops) -> None:
    first, second = shops
    await set_limit(first, rate=(1, 3600))
    worker = await first.worker()
    await first.submit(2, limits=named())
    assert len(await first.claim(worker, 2)) == 1

    async def is_waiting() -> bool:
        async with second.engine.store.read() as connection:
            waiting = sa.text(
                "SELECT objid FROM pg_locks JOIN pg_database ON oid = database"
                " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
            )
            return 7421 in (await connection.execute(waiting)).scalars().all()

    async with asyncio.TaskGroup() as group, second.engine.store.write() as tx:
        await lock_limits(tx)
        group.create_task(set_limit(first, rate=(2, 3600)))
        await until(is_waiting)
        # Neither waits for the other: one would be broken off, and be done anew.
        found = await tx.connection.execute(sa.text("SELECT bucket FROM limit_tokens FOR UPDATE NOWAIT"))
        assert len(found.all()) == 1


async def test_a_claim_under_limits_asks_four_statements_more_than_one_without(
    shops: list[Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the lock, for steps of the clock that others noted, for what the limits have, and for who is next.

    What is used is written with the claim.
    """
    shop, _ = shops
    await set_limit(shop, concurrency=1)
    workers = {key: await shop.worker(await shop.register(f"job{key}")) for key in (None, "a")}
    for key, worker in workers.items():
        for number in range(4):
            await shop.submit(job=f"@global:tasks:job{key}", limits=key and named(key=f"{key}{number}"))
        await shop.claim(worker, 2)
    asked: list[str] = []

    def noting(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def ask(connection: Any, statement: str, *values: Any) -> Any:
            asked.append(statement)
            return await method(connection, statement, *values)

        return ask

    for name in ("execute", "fetch"):
        monkeypatch.setattr(asyncpg.Connection, name, noting(getattr(asyncpg.Connection, name)))
    counts: dict[str | None, int] = {}
    for key, worker in workers.items():
        asked.clear()
        assert len(await shop.claim(worker, 2)) == 2
        counts[key] = len(asked)

    assert counts["a"] == counts[None] + 4
