"""What tasks are to do: whatever puts tasks in or takes them away, it is kept of each of them."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from tests.conftest import FakeClock
from tests.engine.conftest import ADMIN, Shop, two_shops
from tests.engine.test_limits import named, set_limit
from tests.retention.conftest import ended, remove
from treadle.wire.filters import TaskFilter
from treadle.wire.status import Status
from treadle_server.domain.dependencies import Need
from treadle_server.domain.tasks import Task, copy_of
from treadle_server.store.base import Tx
from treadle_server.store.read.tasks import matching_ids, page
from treadle_server.store.read.windows import freeze
from treadle_server.store.tables import task_specs, tasks
from treadle_server.store.transaction.flush import update_tasks
from treadle_server.store.transaction.load import tasks_by_id

pytestmark = pytest.mark.anyio


async def kept(shop: Shop) -> list[tuple[Any, ...]]:
    """Of what tasks what they are to do is kept, with their jobs and rooms: those that there are."""
    c = task_specs.c
    async with shop.engine.store.read() as connection:
        found = await connection.execute(select(c.seq, c.job_num, c.room).order_by(c.seq))
        there = await connection.execute(select(tasks.c.seq, tasks.c.job_num, tasks.c.room).order_by(tasks.c.seq))
        rows = [tuple(row) for row in found]
        assert rows == [tuple(row) for row in there]
    return rows


async def test_it_is_kept_of_tasks_of_one_job_of_several_jobs_and_of_several_rooms(shop: Shop) -> None:
    other = await shop.register("other")
    await shop.submit(3)
    assert len(await kept(shop)) == 3

    submitted = await asyncio.gather(
        shop.submit(2), shop.submit(job=other), shop.submit(room="lab"), shop.submit(job=other, room="den")
    )

    rows = {seq: (job, room) for seq, job, room in await kept(shop)}
    assert [rows[task.seq] for some in submitted for task in some] == [
        (1, "@global"),
        (1, "@global"),
        (2, "@global"),
        (1, "lab"),
        (2, "den"),
    ]


async def test_it_is_kept_of_what_sleeps_is_limited_or_waits_for_others(shop: Shop, clock: FakeClock) -> None:
    [first] = await shop.submit(due_at=clock.now() + timedelta(seconds=60))
    await set_limit(shop, concurrency=1)
    await shop.submit(limits=named())
    await shop.submit(needs=[Need(first.id, [("d", None)])])
    await shop.submit(tags='{"kind":"nightly"}')

    assert len(await kept(shop)) == 4


async def test_it_is_kept_of_what_is_claimed_where_it_is_put_in(shop: Shop) -> None:
    worker = await shop.worker()
    claim = asyncio.create_task(shop.engine.claims.claim(ADMIN, worker, most=1, wait=30.0))
    await shop.submit()

    assert len(await claim) == 1
    assert len(await kept(shop)) == 1


async def test_it_goes_with_what_is_removed(shop: Shop, clock: FakeClock) -> None:
    one, other = await ended(shop), await ended(shop, Status.FAILED)
    [stays] = await shop.submit()
    clock.advance(100)

    assert set(await remove(shop, 50)) == {one.id, other.id}

    assert [seq for seq, _, _ in await kept(shop)] == [stays.seq]


async def test_pages_and_all_that_match_are_read_along_the_lists(shop: Shop) -> None:
    rare = await shop.register("rare")
    [first] = await shop.submit(job=rare)
    await shop.submit(3)
    [last] = await shop.submit(job=rare, room="lab")

    async with shop.engine.store.read() as connection:
        of_job = await page(connection, TaskFilter(job=rare), limit=10)
        of_room = await page(connection, TaskFilter(room="lab"), limit=10)
        behind = await page(connection, TaskFilter(job=rare), limit=1)
        rest = await page(connection, TaskFilter(job=rare), limit=5, cursor=behind.next_cursor)
        named = await matching_ids(connection, TaskFilter(job=rare, text="@global"), 1)
        frozen, more = await freeze(connection, TaskFilter(job=rare), order="position", limit=5)

    assert [seen.task.id for seen in of_job.items] == [last.id, first.id]
    assert (of_job.next_cursor, of_job.is_partial) == (None, False)
    assert [seen.task.id for seen in of_room.items] == [last.id]
    assert [seen.task.id for seen in (*behind.items, *rest.items)] == [last.id, first.id]
    assert named == [last.id]
    assert ([view.id for view in frozen], more) == ([first.id, last.id], False)


@pytest.mark.postgres
async def test_who_waited_for_an_edit_of_another_server_reads_what_the_task_is_to_do_now(
    postgres_database: str, clock: FakeClock
) -> None:
    """PostgreSQL reads a row anew for whose lock it waited, and only that row of those which it joins."""
    async with two_shops(postgres_database, clock) as (one, other):
        [task] = await one.submit()
        async with one.engine.store.write() as tx:
            [edited] = await tasks_by_id(tx, [task.id])
            before = copy_of(edited)
            edited.payload, edited.version = '{"n": "edited"}', 2
            await update_tasks(tx, [(edited, before)])
            waits = asyncio.create_task(_read_locked(other, task))
            async with asyncio.timeout(10):
                while not await _is_locked_out(tx):
                    pass
        read = await waits

    assert (read.version, json.loads(read.payload)) == (2, {"n": "edited"})


async def _read_locked(shop: Shop, task: Task) -> Task:
    async with shop.engine.store.write() as tx:
        [found] = await tasks_by_id(tx, [task.id])
    return found


async def _is_locked_out(tx: Tx) -> bool:
    """Whether another transaction waits for what this one has locked."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    return bool((await tx.connection.exec_driver_sql(waiting)).scalar())
