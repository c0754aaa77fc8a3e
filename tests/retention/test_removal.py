"""What is removed when its time is over, and what stays because something needs it (E12)."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.retention.conftest import ended, left, remove
from treadle.wire.runs import LogLine
from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.dependencies import Need
from treadle_server.engine.commands import Steer, Submission, Submit
from treadle_server.engine.commands.prune import PruneTasks
from treadle_server.engine.engine import Engine
from treadle_server.services.retention import cutoffs_of
from treadle_server.store import tables
from treadle_server.store.past_runs import past_runs
from treadle_server.store.transaction import prune

pytestmark = pytest.mark.anyio

CHILDREN = (
    tables.runs,
    tables.task_specs,
    tables.task_logs,
    tables.holds,
    tables.artifacts,
    tables.task_dependencies,
)


async def write(shop, *statements: sa.Executable) -> None:
    async with shop.engine.store.write() as tx:
        for statement in statements:
            await tx.connection.execute(statement)


async def rows_of(shop, table: sa.FromClause) -> int:
    async with shop.engine.store.read() as connection:
        return (await connection.execute(sa.select(sa.func.count()).select_from(table))).scalar_one()


async def test_ended_tasks_go_with_their_runs_and_logs_when_the_age_of_their_status_is_over_e12(shop, clock) -> None:
    tasks = {status: await ended(shop, status) for status in TERMINAL}
    clock.advance(100)
    fresh = await ended(shop)
    [logged] = await shop.submit()
    [logged] = await shop.claim(shop.workers[0])
    await shop.report(logged, "started")
    await shop.report(logged, "logs", lines=[LogLine(message="line")])
    await shop.report(logged, "completed")

    gone = await remove(shop, 50, Status.COMPLETED, Status.CANCELLED)

    assert set(gone) == {tasks[Status.COMPLETED].id, tasks[Status.CANCELLED].id}
    assert await left(shop) == {tasks[Status.FAILED].id, fresh.id, logged.id}
    assert (await rows_of(shop, past_runs()), await rows_of(shop, tables.task_logs)) == (3, 1)
    assert set(await remove(shop)) == {tasks[Status.FAILED].id, fresh.id, logged.id}
    assert [await rows_of(shop, table) for table in CHILDREN] == [0] * len(CHILDREN)


async def test_what_is_open_stays_however_old_it_is_e12(shop, clock) -> None:
    worker = await shop.worker()
    running, claimed, paused, pending = await shop.submit(4)
    await shop.claim(worker, 2)
    await shop.report(await shop.get(running.id), "started")
    await shop.steer(paused, "pause")
    [scheduled] = await shop.submit(delay=10**8)
    clock.advance(10**7)

    assert await remove(shop) == []
    assert await left(shop) == {task.id for task in (running, claimed, paused, pending, scheduled)}


async def test_a_failed_task_that_holds_its_target_stays_until_it_is_settled_e12_l2(shop, clock) -> None:
    holder = await ended(shop, Status.FAILED, target="robot")
    let_by = await ended(shop, Status.FAILED, target="arm", options={"on_failure": "release"})
    [waiting] = await shop.submit(target="robot")
    clock.advance(100)

    assert await remove(shop) == [let_by.id]
    assert (await shop.get(waiting.id)).blocked
    await shop.steer(holder, "resolve")
    clock.advance(100)
    assert await remove(shop) == [holder.id]
    assert await left(shop) == {waiting.id}


async def test_a_cancelled_task_whose_code_may_still_run_stays_until_it_has_stopped_e12_g5(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(target="robot")
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await shop.steer(claimed, "cancel")

    assert await remove(shop) == []
    await shop.report(claimed, "stopped")
    assert await remove(shop) == [claimed.id]


async def test_what_an_open_task_waits_for_stays_until_that_has_ended_e12(shop) -> None:
    first = await ended(shop)
    [second] = await shop.submit()
    await write(shop, sa.insert(tables.task_dependencies).values(task_seq=second.seq, needs_seq=first.seq))

    assert await remove(shop) == []
    await shop.steer(second, "cancel")
    # It may be run again until it has gone itself.
    assert await remove(shop) == [second.id]
    assert await remove(shop) == [first.id]


@pytest.mark.parametrize("end", [Status.FAILED, Status.CANCELLED])
async def test_what_did_not_complete_stays_until_what_waited_for_it_is_past_its_time_too_e12(shop, clock, end) -> None:
    """That may be run again, and must not go without what it waits for."""
    first = await ended(shop, end)
    clock.advance(100)
    [second] = await shop.submit()
    await write(shop, sa.insert(tables.task_dependencies).values(task_seq=second.seq, needs_seq=first.seq))
    await shop.steer(second, "cancel")

    assert await remove(shop, 50) == []
    if end is Status.FAILED:
        assert await remove(shop, 0, end) == []
    clock.advance(100)
    assert await remove(shop, 50) == [first.id, second.id]


async def test_the_last_instance_of_a_schedule_stays_as_long_as_the_schedule_e12(shop, clock) -> None:
    earlier, last = await ended(shop), await ended(shop)
    schedule = str(uuid4())
    values = {
        "id": schedule, "room": "r", "name": "n", "job_num": last.job_num, "template": "{}", "payload": "{}",
        "schema_version": 1, "missed": "late", "interval_seconds": 60,
        "jitter_seconds": 0, "paused": False, "last_task_id": last.id, "owner": "admin", "created_at": clock.now(),
        "version": 1,
    }  # fmt: skip
    of_it = sa.update(tables.tasks).where(tables.tasks.c.id.in_([earlier.id, last.id])).values(schedule_id=schedule)
    await write(shop, sa.insert(tables.schedules).values(**values), of_it)

    assert await remove(shop) == [earlier.id]
    await write(shop, sa.update(tables.schedules).values(deleted_at=clock.now()))
    assert await remove(shop) == [last.id]


async def test_a_task_whose_file_is_just_being_uploaded_stays_e12_c10(shop, clock) -> None:
    task = await ended(shop, Status.FAILED)
    values = {
        "id": str(uuid4()), "task_seq": task.seq, "run_id": 0, "name": "core", "content_type": "x/y", "size": 1,
        "location": "x", "state": "uploading", "created_at": clock.now(),
    }  # fmt: skip
    await write(shop, sa.insert(tables.artifacts).values(**values))

    assert await remove(shop) == []
    await write(shop, sa.update(tables.artifacts).values(state="stored"))
    assert await remove(shop) == [task.id]
    assert await rows_of(shop, tables.artifacts) == 0


async def test_a_task_with_a_delivery_that_is_still_tried_stays_and_a_dead_one_goes_with_it_e12(shop, clock) -> None:
    task = await ended(shop)
    hook = {
        "id": str(uuid4()), "room": "r", "name": "n", "url": "http://x", "statuses": "[]", "secret": "s", "owner": "o",
        "created_at": clock.now(), "updated_at": clock.now(),
    }  # fmt: skip
    owed = {
        "id": str(uuid4()), "webhook_id": hook["id"], "task_seq": task.seq, "status": "completed", "body": "{}",
        "created_at": clock.now(), "attempts": 0, "next_at": clock.now(),
    }  # fmt: skip
    await write(shop, sa.insert(tables.webhooks).values(**hook), sa.insert(tables.webhook_deliveries).values(**owed))

    assert await remove(shop) == []
    await write(shop, sa.update(tables.webhook_deliveries).values(next_at=None, dead_at=clock.now()))
    assert await remove(shop) == [task.id]
    assert (await rows_of(shop, tables.webhook_deliveries), await rows_of(shop, tables.webhooks)) == (0, 1)


async def test_a_task_that_is_run_again_in_the_same_commit_stays_e12_e11(shop) -> None:
    tasks = [await ended(shop), await ended(shop)]
    removal = PruneTasks(
        seqs=[t.seq for t in tasks], cutoffs=cutoffs_of(dict.fromkeys(TERMINAL, timedelta()), shop.engine.clock.now())
    )
    rerun = Steer(principal=shop.principal, task_id=tasks[0].id, action="rerun")

    done, again = await asyncio.gather(shop.engine.run(removal), shop.engine.run(rerun))

    assert [task.id for task in done.removed] == [tasks[1].id]
    assert (again.status, await left(shop)) == (Status.PENDING, {tasks[0].id})
    assert len(await shop.claim(shop.workers[0])) == 1


async def test_an_id_that_is_submitted_again_in_the_same_commit_is_still_the_first_task_e12_g6(shop) -> None:
    task_id = str(uuid4())
    item = Submission(job_name=shop.job, payload="{}", content_hash=b"x", id=task_id)
    submit = Submit(principal=shop.principal, room="@global", items=[item])
    [first] = await shop.engine.run(submit)
    await shop.steer(first.task, "cancel")
    cutoffs = cutoffs_of(dict.fromkeys(TERMINAL, timedelta()), shop.engine.clock.now())

    _, [second] = await asyncio.gather(
        shop.engine.run(PruneTasks(seqs=[first.task.seq], cutoffs=cutoffs)), shop.engine.run(submit)
    )
    assert (second.created, second.task.seq, await left(shop)) == (False, first.task.seq, {task_id})
    assert await remove(shop) == [task_id]
    [third] = await shop.engine.run(submit)
    assert third.created


async def test_no_number_is_given_twice_when_the_newest_tasks_are_removed_also_after_a_restart_e12(shop) -> None:
    before = [await ended(shop) for _ in range(3)]

    assert len(await remove(shop)) == 3
    [after] = await shop.submit()
    await shop.steer(after, "cancel")
    await remove(shop)
    async with Engine(shop.engine.store, clock=shop.engine.clock).running() as other:
        item = Submission(job_name=shop.job, payload="{}", content_hash=b"x", unique_key="the slow path")
        [last] = await other.run(Submit(principal=shop.principal, room="@global", items=[item]))

    assert max(task.seq for task in before) < after.seq < last.task.seq


async def test_a_task_with_a_long_log_loses_it_in_steps_before_it_goes_e12(shop, clock) -> None:
    task = await ended(shop)
    other = await ended(shop)
    lines = 2 * prune.MOST_LINES + 10
    rows = [
        {"task_seq": task.seq, "run_id": 0, "line": n, "at": clock.now(), "level": "info", "message": "m"}
        for n in range(lines)
    ]
    async with shop.engine.store.write() as tx:
        await tx.connection.execute(sa.insert(tables.task_logs), rows)
    cutoffs = cutoffs_of(dict.fromkeys(TERMINAL, timedelta()), clock.now())
    seen = []

    while task.id in await left(shop):
        done = await shop.engine.run(PruneTasks(seqs=[task.seq, other.seq], cutoffs=cutoffs))
        seen.append((len(done.removed), await rows_of(shop, tables.task_logs)))

    assert seen == [(0, prune.MOST_LINES + 10), (0, 10), (2, 0)]


async def test_two_walks_at_once_remove_each_task_once_e12_g11(shop) -> None:
    tasks = await shop.submit(40)
    for task in tasks:
        await shop.steer(task, "cancel")

    one, other = await asyncio.gather(remove(shop), remove(shop))

    assert sorted([*one, *other]) == sorted(task.id for task in tasks)


async def test_what_a_task_is_put_in_behind_is_not_removed_in_the_same_moment_e12(shop, clock) -> None:
    first = await ended(shop)
    clock.advance(100)
    cutoffs = cutoffs_of(dict.fromkeys(TERMINAL, timedelta(seconds=1)), clock.now())
    needs = [Need(first.id, [("first", None)])]

    [put], gone = await asyncio.gather(
        shop.submit(needs=needs), shop.engine.run(PruneTasks(seqs=[first.seq], cutoffs=cutoffs))
    )

    assert put.unmet == 0
    assert gone.removed == []
    assert await left(shop) == {first.id, put.id}
