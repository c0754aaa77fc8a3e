"""Which outcomes are owed to which webhook: in the transaction of the outcome, and only where one wants it (E12)."""

import asyncio
import itertools
from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.retention.conftest import ended
from tests.webhooks.conftest import hook, outbox
from treadle.wire.status import Reason, Status
from treadle_server.engine import applying, hooks
from treadle_server.engine.commands import ExpireLeases, MissDeadlines, ReportMany, RunReport
from treadle_server.store import tables
from treadle_server.store.base import LostUpdate
from treadle_server.store.transaction import webhooks

pytestmark = pytest.mark.anyio


async def owed(shop) -> list[tuple[str, str]]:
    """Return the task and the outcome of every delivery."""
    async with shop.engine.store.read() as connection:
        ids = {row.seq: row.id for row in await connection.execute(sa.select(tables.tasks.c.seq, tables.tasks.c.id))}
    return [(ids[row.task_seq], row.status) for row in await outbox(shop.engine)]


@pytest.mark.parametrize("is_fast", [True, False])
async def test_a_completion_is_owed_once_by_the_fast_path_and_on_the_slow_path_e12(shop, is_fast) -> None:
    await hook(shop.engine, "http://x")
    worker = await shop.worker()
    await shop.submit(3)
    claimed = await shop.claim(worker, 3)
    if not is_fast:
        shop.engine.fast_reports.clear()
    reports = [(task.id, task.run_id, RunReport(kind="completed", starts=True, result="1")) for task in claimed]

    await shop.engine.run(ReportMany(principal=shop.principal, worker_id=worker, reports=reports))

    assert sorted(await owed(shop)) == sorted((task.id, "completed") for task in claimed)


@pytest.mark.parametrize("each", [True, False])
async def test_a_run_whose_start_and_end_come_in_one_commit_is_owed_once_e12(shop, each) -> None:
    await hook(shop.engine, "http://x")
    shop.engine.hub.each = each
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)
    reports = [(task.id, task.run_id, RunReport(kind=kind)) for kind in ("started", "completed")]

    await shop.engine.run(ReportMany(principal=shop.principal, worker_id=worker, reports=reports))

    assert await owed(shop) == [(task.id, "completed")]


async def test_every_way_to_an_end_is_owed_and_nothing_else_e12(shop, clock) -> None:
    await hook(shop.engine, "http://x")
    worker = await shop.worker()
    done = [await ended(shop, status) for status in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)]
    expected = [(task.id, task.status.value) for task in done]
    [late] = await shop.submit(deadline=clock.now() + timedelta(seconds=5))
    [again] = await shop.submit(options={"max_retries": 1, "retry_base": 0})
    await shop.steer(done[1], "resume")
    await shop.steer(done[1], "cancel")
    paused = done[1]
    assert len(await outbox(shop.engine)) == 4
    expected += [(paused.id, "cancelled")]
    clock.advance(5)
    await shop.engine.run(MissDeadlines())
    expected += [(late.id, "failed")]
    [first] = await shop.claim(worker)
    assert first.id == again.id
    await shop.run(first, "failed", reason=Reason.ERROR, error="tried again")
    assert len(await outbox(shop.engine)) == 5
    await shop.claim(worker)
    clock.advance(61)
    await shop.engine.run(ExpireLeases())
    expected += [(again.id, "failed")]
    await shop.steer(again, "resolve")
    expected += [(again.id, "completed")]

    assert await owed(shop) == expected


async def test_a_webhook_hears_of_its_room_jobs_and_outcomes_and_one_of_global_of_every_room_e12(shop) -> None:
    other = await shop.register("other")
    everything = await hook(shop.engine, "http://x")
    narrow = await hook(shop.engine, "http://x", room="lab", jobs=[other], statuses=["cancelled"])
    elsewhere = await hook(shop.engine, "http://x", room="attic")
    for job, room in ((shop.job, "@global"), (shop.job, "lab"), (other, "@global"), (other, "lab")):
        [wanted] = await shop.submit(job=job, room=room)
        await shop.steer(wanted, "cancel")
    await shop.steer(wanted, "rerun")
    worker = await shop.worker(other)
    [claimed] = await shop.claim(worker)
    await shop.run(claimed)

    rows = await outbox(shop.engine)

    told = {one["id"]: [row for row in rows if row.webhook_id == one["id"]] for one in (everything, narrow, elsewhere)}
    assert [len(mine) for mine in told.values()] == [5, 1, 0]
    [mine] = told[narrow["id"]]
    assert (mine.task_seq, mine.status) == (wanted.seq, "cancelled")


async def test_without_a_webhook_nothing_is_looked_at_e12(shop, monkeypatch) -> None:
    async def note(*_args) -> None:
        raise AssertionError("nobody wants to hear of it")

    monkeypatch.setattr(shop.engine.hooks, "note", note)

    task = await ended(shop)

    assert (await shop.get(task.id)).status is Status.COMPLETED


async def test_an_outcome_whose_commit_failed_is_owed_nothing_and_one_that_was_done_anew_is_owed_once_e12_g1(
    shop, monkeypatch
) -> None:
    await hook(shop.engine, "http://x")
    [task] = await shop.submit()
    write, tries = applying.write, []

    async def overtaken(world) -> None:
        await write(world)
        if not world.batch.tasks:
            return  # a service's own
        tries.append(len(world.batch.tasks))
        if len(tries) == 1:
            raise LostUpdate("another server was faster")

    monkeypatch.setattr(applying, "write", overtaken)
    note = shop.engine.hooks.note

    async def failing(*args) -> None:
        await note(*args)
        raise RuntimeError("the outbox can't be written")

    await shop.steer(task, "cancel")
    assert (len(tries), await owed(shop)) == (2, [(task.id, "cancelled")])
    [other] = await shop.submit()
    monkeypatch.setattr(shop.engine.hooks, "note", failing)
    with pytest.raises(RuntimeError, match="can't be written"):
        await shop.steer(other, "cancel")
    assert (await shop.get(other.id)).status is Status.PENDING
    assert await owed(shop) == [(task.id, "cancelled")]


async def test_a_webhook_that_another_server_has_deleted_is_owed_nothing_and_the_outcome_stands_e12_g11(shop) -> None:
    await hook(shop.engine, "http://x")
    async with shop.engine.store.write() as tx:
        await tx.connection.execute(sa.delete(tables.webhooks))
    assert shop.engine.hooks

    task = await ended(shop)

    assert (await shop.get(task.id)).status is Status.COMPLETED
    assert await outbox(shop.engine) == []


async def test_what_is_told_is_the_outcome_as_it_was_whatever_becomes_of_the_task_e12(shop, clock) -> None:
    import json

    await hook(shop.engine, "http://x")
    worker = await shop.worker()
    await shop.submit(tags='{"k":"v"}', target="robot", room="lab")
    [claimed] = await shop.claim(worker)
    done = await shop.run(claimed, result='{"sum":3,"big":123456789012345678901234567890}')
    at = done.completed_at
    clock.advance(100)
    await shop.steer(done, "rerun")

    [row] = await outbox(shop.engine)

    said = json.loads(row.body)
    assert (said["type"], said["timestamp"]) == ("task.completed", at.isoformat().replace("+00:00", "Z"))
    data = said["data"]
    assert (data["id"], data["job_name"], data["room_id"], data["status"]) == (done.id, shop.job, "lab", "completed")
    assert (data["result"], data["run_id"], data["tags"], data["target"]) == (
        {"sum": 3, "big": 123456789012345678901234567890}, 0, {"k": "v"}, "robot",
    )  # fmt: skip
    assert "payload" not in data


async def test_a_result_that_is_too_long_to_be_told_is_left_out_and_said_to_be_e12(shop) -> None:
    import json

    await hook(shop.engine, "http://x")
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.run(claimed, result=json.dumps("x" * 70_000))

    data = json.loads((await outbox(shop.engine))[0].body)["data"]

    assert (data["result"], data["result_is_left_out"]) == (None, True)


async def test_outcomes_of_one_commit_are_each_owed_to_each_webhook_e12_e11(shop) -> None:
    for _ in range(3):
        await hook(shop.engine, "http://x")
    tasks = await shop.submit(20)

    await asyncio.gather(*(shop.steer(task, "cancel") for task in tasks))

    rows = await outbox(shop.engine)
    assert (len(rows), len({row.id for row in rows}), len({row.task_seq for row in rows})) == (60, 60, 20)


async def test_outcomes_that_owe_many_deliveries_let_others_have_their_turn_n3_e12(shop, monkeypatch) -> None:
    """A bulk action on 500 tasks of a room with a hundred webhooks held the loop for a second."""
    monkeypatch.setattr(hooks, "AT_ONCE", 5)
    turns, seen = itertools.count(), []
    put_in = webhooks.put_in

    async def noted(tx, owed) -> None:
        seen.append((len(owed), next(turns)))
        await put_in(tx, owed)

    async def others() -> None:
        while True:
            await asyncio.sleep(0)
            next(turns)

    monkeypatch.setattr(webhooks, "put_in", noted)
    for _ in range(3):
        await hook(shop.engine, "http://x")
    tasks = await shop.submit(20)

    going = asyncio.create_task(others())
    await asyncio.gather(*(shop.steer(task, "cancel") for task in tasks))
    going.cancel()

    assert [size for size, _ in seen] == [5] * 12
    assert all(after > before + 1 for (_, before), (_, after) in itertools.pairwise(seen))
    assert len(await outbox(shop.engine)) == 60


def test_a_claimed_delivery_does_not_show_its_secret_to_who_reports_an_error_with_the_variables_of_each_frame() -> None:
    assert "whsec_" not in repr(webhooks.Claimed("1", "2", "lab", "ci", "{}", 1, "https://hooks.example/", "whsec_x"))


async def test_what_was_read_of_the_webhooks_before_one_was_set_does_not_replace_what_was_read_after(
    shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reading, may_end = asyncio.Event(), asyncio.Event()
    read, engine = webhooks.hooks, shop.engine

    async def slowly(connection):
        found = await read(connection)
        if not is_reading.is_set():
            is_reading.set()
            await may_end.wait()
        return found

    monkeypatch.setattr(webhooks, "hooks", slowly)
    before = asyncio.create_task(engine.hooks.refresh(engine.store))
    await is_reading.wait()
    after = asyncio.create_task(hook(engine, "http://x"))
    await asyncio.wait({after}, timeout=0.2)
    may_end.set()
    await asyncio.gather(before, after)

    assert engine.hooks


async def test_webhooks_are_read_in_portions(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 held the loop for 0.1 s."""
    monkeypatch.setattr(webhooks, "PORTION", 2)
    for _ in range(5):
        await hook(shop.engine, "http://x")
    async with shop.engine.store.read() as connection:
        rows = await connection.execute(sa.select(tables.webhooks))

    class Connection:
        async def execute(self, _: object) -> object:
            return rows

    reading, turns = webhooks.hooks(Connection()), 0  # type: ignore[arg-type]
    with pytest.raises(StopIteration) as done:
        while True:
            reading.send(None)
            turns += 1

    assert len(done.value.value) == 5
    assert turns == 3
