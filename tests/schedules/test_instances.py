"""What schedules put in: each tick once, one open at a time, whatever becomes of the last (E10); on both databases."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.schedules.conftest import Ticker, seconds
from treadle.wire.status import Reason, Status
from treadle_server.access.principal import SYSTEM, Principal
from treadle_server.domain.limits import Caps
from treadle_server.engine.commands import (
    DeleteLimit,
    DeleteOrphans,
    RegisterJob,
    ReportMany,
    RunReport,
    SetLimit,
)
from treadle_server.engine.commands.submit import SchemaMoved
from treadle_server.errors import (
    Forbidden,
    JobNotFound,
    LimitFull,
    LimitNotFound,
    Refused,
    ScheduleNotFound,
    TaskConflict,
    ValidationFailed,
)
from treadle_server.store.read.jobs import possible_orphans

pytestmark = pytest.mark.anyio

ANN = Principal("ann")


async def test_a_tick_puts_one_task_in_at_its_time_and_not_before_e10(ticker: Ticker, clock: FakeClock) -> None:
    start = clock.now()
    await ticker.set(
        template='{"priority": 7, "timeout": 9.0, "target": "cam",'
        ' "tags": {"who": "mia", "big": {"n": 1000000000000000000000}}}'
    )

    await ticker.pass_time(59.999)
    assert await ticker.tasks() == []
    await ticker.pass_time(0.001)

    [task] = await ticker.tasks()
    assert (task.status, task.due_at, task.payload.replace(" ", "")) == (Status.PENDING, clock.now(), '{"n":1}')
    assert (task.priority, task.timeout, task.target, task.room) == (7, 9.0, "cam", "@global")
    assert task.tags is not None
    assert '"who"' in task.tags
    assert '"nightly"' in task.tags
    assert "1000000000000000000000" in task.tags
    schedule = await ticker.get()
    assert (schedule.last_at, schedule.last_task_id) == (clock.now(), task.id)
    assert seconds([schedule.next_at], start) == [120]


@pytest.mark.parametrize("timing", [{"interval_seconds": 60.0}, {"cron": "* * * * *"}])
async def test_the_one_task_of_several_ticks_is_of_use_as_long_as_the_last_of_them_says_e10(
    ticker: Ticker, clock: FakeClock, timing: dict[str, Any]
) -> None:
    """It was over before it was made, after every hour without a server: the late run was none, and failed."""
    await ticker.set(template='{"deadline": 90}', **timing)
    first = (await ticker.get()).next_at
    assert first is not None

    await ticker.pass_time((first - clock.now()).total_seconds() + 3600 + 30)

    [task] = await ticker.tasks()
    assert (task.status, task.due_at) == (Status.PENDING, first)
    assert task.deadline == first + timedelta(seconds=3600 + 90)


async def test_a_template_says_all_that_a_submit_says_of_a_task(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set(
        template='{"scopes": ["queue:read:lab"], "unique_key": "k", "deadline": 30, "retry_base": 1.5, "budget": 4,'
        ' "on_failure": "release", "max_retries": 2, "pool": "gpu"}'
    )

    await ticker.pass_time(60)
    await ticker.shop.steer((await ticker.tasks())[0], "cancel")
    by_hand = await ticker.run_now()

    for task in await ticker.tasks():
        assert (task.scopes, task.unique_key) == ('["queue:read:lab"]', "k")
        assert (task.retry_base, task.budget, task.on_failure, task.max_retries, task.pool) == (
            1.5, 4.0, "release", 2, "gpu",
        )  # fmt: skip
        assert task.deadline == clock.now() + timedelta(seconds=30)
    assert by_hand.id == (await ticker.tasks())[-1].id


async def test_a_deadline_counts_from_the_tick_however_late_its_task_is_made(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set(template='{"deadline": 3600}')
    tick = clock.now() + timedelta(seconds=60)

    await ticker.pass_time(100)

    [task] = await ticker.tasks()
    assert task.deadline == tick + timedelta(seconds=3600)


async def test_a_tick_that_meets_its_held_unique_key_is_skipped_and_told_and_the_next_one_is_not(
    ticker: Ticker, clock: FakeClock
) -> None:
    [holder] = await ticker.shop.submit(unique_key="k")
    await ticker.set(template='{"unique_key": "k"}')
    tick = clock.now() + timedelta(seconds=60)
    told = []
    ticker.shop.engine.hub.listen(lambda batch: told.extend(batch.schedules))

    await ticker.pass_time(60)
    skipped = await ticker.get()
    with pytest.raises(TaskConflict, match=holder.id):
        await ticker.run_now()
    assert await ticker.tasks() == []
    await ticker.shop.steer(holder, "cancel")
    await ticker.pass_time(60)

    assert (skipped.skipped_at, skipped.skipped_for) == (tick, holder.id)
    assert (skipped.next_at, skipped.version) == (tick + timedelta(seconds=60), 1)
    assert [one.skipped_at for one in told] == [tick]
    [task] = await ticker.tasks()
    assert (task.unique_key, task.due_at) == ("k", tick + timedelta(seconds=60))


async def test_a_tick_whose_limit_is_gone_is_skipped_and_told_and_stops_no_other_schedule(
    ticker: Ticker, clock: FakeClock
) -> None:
    caps = Caps(concurrency=1, rate_count=None, rate_seconds=None, rate_burst=None)
    limit = {"principal": SYSTEM, "room": "@global", "name": "api"}
    template = '{"limits": [{"name": "api", "key": null, "weight": null}]}'
    with pytest.raises(LimitNotFound, match="no limit 'api'"):
        await ticker.set(template=template)
    await ticker.shop.engine.run(SetLimit(**limit, caps=caps))
    await ticker.set(template=template)
    await ticker.shop.engine.run(DeleteLimit(**limit))
    other = Ticker(ticker.shop, clock, name="other")
    await other.set()
    tick = clock.now() + timedelta(seconds=60)

    await ticker.pass_time(60)
    skipped, others = await ticker.get(), await ticker.tasks()
    with pytest.raises(LimitNotFound, match="no limit 'api'"):
        await ticker.run_now()
    await ticker.shop.engine.run(SetLimit(**limit, caps=caps))
    await ticker.run_now()

    assert (skipped.skipped_at, skipped.skipped_for) == (tick, None)
    assert skipped.skipped_why is not None
    assert "treadle limits set api" in skipped.skipped_why
    assert skipped.next_at == tick + timedelta(seconds=60)
    assert [task.limit_key for task in others] == [None]
    assert [task.limit_key is None for task in await ticker.tasks()] == [True, False]


async def test_the_end_of_a_task_gives_its_unique_key_to_the_next_one_in_the_same_commit(
    ticker: Ticker, clock: FakeClock
) -> None:
    await ticker.set(template='{"unique_key": "k"}')
    await ticker.pass_time(60)
    claimed = await ticker.take()
    await ticker.pass_time(60)

    await ticker.shop.report(claimed, "completed")

    assert [(task.status, task.unique_key) for task in await ticker.tasks()] == [
        (Status.COMPLETED, "k"), (Status.PENDING, "k"),
    ]  # fmt: skip
    assert (await ticker.get()).skipped_at is None


async def test_nobody_schedules_with_scopes_that_they_do_not_hold_g10(ticker: Ticker) -> None:
    template = '{"scopes": ["queue:control-task:lab"]}'

    with pytest.raises(Forbidden, match="queue:control-task:lab"):
        await ticker.set(template=template, principal=ANN)
    with pytest.raises(ScheduleNotFound):
        await ticker.get()
    await ticker.set(principal=ANN)
    with pytest.raises(Forbidden, match="queue:control-task:lab"):
        await ticker.set(template=template, principal=ANN)
    await ticker.set(
        template=template, principal=Principal("ann", scopes=frozenset({"queue:control-task:*", "queue:create-task:*"}))
    )


async def test_while_one_is_open_no_other_is_made_and_its_end_makes_the_next_in_the_same_commit_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = await ticker.begin()
    claimed = await ticker.take()
    for _ in range(5):
        await ticker.pass_time(50)
    assert len(await ticker.tasks()) == 1
    batches = []
    ticker.shop.engine.hub.listen(batches.append)

    await ticker.shop.report(claimed, "completed")

    [batch] = batches
    assert [(change.task.status, change.was) for change in batch.tasks] == [
        (Status.COMPLETED, Status.RUNNING), (Status.PENDING, None),
    ]  # fmt: skip
    # One late run for the four ticks that came meanwhile, then on in the old phase.
    assert seconds(await ticker.ticks(), start) == [60, 120]
    assert seconds([(await ticker.get()).next_at], start) == [360]
    clock.advance(20)
    await ticker.finish()
    await ticker.turn()
    assert len(await ticker.tasks()) == 2


async def test_reports_in_bulk_take_no_shorter_way_past_the_next_task_e10(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set()
    worker = await ticker.shop.worker()
    await ticker.pass_time(60)
    [claimed] = await ticker.shop.claim(worker)
    clock.advance(70)
    said = [(claimed.id, claimed.run_id, RunReport(kind="completed", starts=True))]

    await ticker.shop.engine.run(ReportMany(principal=ticker.shop.principal, worker_id=worker, reports=said))

    assert [task.status for task in await ticker.tasks()] == [Status.COMPLETED, Status.PENDING]


@pytest.mark.parametrize("ending", ["failed", "cancelled", "lost", "resolved"])
async def test_whatever_ends_the_last_one_the_next_follows_e10(ticker: Ticker, clock: FakeClock, ending: str) -> None:
    start = clock.now()
    await ticker.set(template='{"max_requeues": 0}')
    await ticker.pass_time(60)
    claimed = await ticker.take()
    clock.advance(70)

    match ending:
        case "failed":
            await ticker.shop.report(claimed, "failed", reason=Reason.ERROR, error="x")
        case "cancelled":
            await ticker.shop.steer(claimed, "cancel")
        case "lost":
            await ticker.shop.report(claimed, "exception", reason=Reason.WORKER_SHUTDOWN)
        case "resolved":
            await ticker.shop.steer(claimed, "pause")
            await ticker.shop.report(claimed, "paused")
            await ticker.shop.steer(claimed, "resolve")

    assert len(await ticker.tasks()) == 2
    assert seconds(await ticker.ticks(), start) == [60, 120]


async def test_a_retry_or_a_pause_is_no_end_e10(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set(template='{"max_retries": 1, "retry_base": 100.0}')
    await ticker.pass_time(60)
    await ticker.finish("failed", reason=Reason.ERROR, error="x")
    await ticker.pass_time(70)
    [task] = await ticker.tasks()
    assert task.status is Status.SCHEDULED

    await ticker.shop.steer(task, "pause")
    await ticker.pass_time(600)

    assert len(await ticker.tasks()) == 1


async def test_after_an_outage_there_is_one_late_run_and_the_phase_is_kept_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = clock.now()
    await ticker.set()
    clock.advance(3600 + 7)
    await ticker.turn()

    [task] = await ticker.tasks()
    assert (task.status, seconds([task.due_at], start)) == (Status.PENDING, [60])
    assert seconds([(await ticker.get()).next_at], start) == [3660]
    await ticker.finish()
    await ticker.turn()
    assert len(await ticker.tasks()) == 1
    await ticker.pass_time(53)
    assert seconds(await ticker.ticks(), start) == [60, 3660]


async def test_skip_drops_what_was_missed_e10(ticker: Ticker, clock: FakeClock) -> None:
    start = clock.now()
    await ticker.set(missed="skip")
    clock.advance(150)
    await ticker.turn()
    assert await ticker.tasks() == []
    assert seconds([(await ticker.get()).next_at], start) == [180]

    await ticker.pass_time(30)
    claimed = await ticker.take()
    clock.advance(100)
    await ticker.shop.report(claimed, "completed")

    assert seconds(await ticker.ticks(), start) == [180]
    assert seconds([(await ticker.get()).next_at], start) == [300]


async def test_jitter_makes_a_task_due_later_and_leaves_the_ticks_where_they_are_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = clock.now()
    await ticker.set(jitter_seconds=30.0)
    late = []
    for _ in range(8):
        await ticker.pass_time(60)
        task = (await ticker.tasks())[-1]
        late.append((task.due_at - clock.now()).total_seconds())
        assert task.status is (Status.SCHEDULED if late[-1] > 0 else Status.PENDING)
        await ticker.shop.steer(task, "cancel")

    assert all(0 <= one <= 30 for one in late)
    assert len(set(late)) > 1
    assert seconds(await ticker.ticks(), start) == [60 * n for n in range(1, 9)]


@pytest.mark.parametrize("draw", [0.0, 0.25])
async def test_jitter_is_a_random_share_of_the_most_that_it_may_be_e10(
    ticker: Ticker, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, draw: float
) -> None:
    monkeypatch.setattr("random.random", lambda: draw)
    await ticker.set(jitter_seconds=30.0)

    await ticker.pass_time(60)

    [task] = await ticker.tasks()
    assert (task.due_at - clock.now()).total_seconds() == 30 * draw


async def test_a_paused_schedule_makes_nothing_and_goes_on_with_the_next_tick_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = clock.now()
    await ticker.set()
    await ticker.pause()
    await ticker.pass_time(150)
    assert await ticker.tasks() == []

    await ticker.pause(paused=False)
    await ticker.turn()
    assert await ticker.tasks() == []
    await ticker.pass_time(30)

    assert seconds(await ticker.ticks(), start) == [180]


async def test_what_is_resumed_before_its_tick_keeps_it_e10(ticker: Ticker, clock: FakeClock) -> None:
    start = clock.now()
    await ticker.set()
    clock.advance(30)
    await ticker.pause()
    await ticker.pause(paused=False)

    assert seconds([(await ticker.get()).next_at], start) == [60]


async def test_run_now_puts_one_in_beside_the_ticks_also_while_paused_e10(ticker: Ticker, clock: FakeClock) -> None:
    start = clock.now()
    await ticker.set(jitter_seconds=30.0)
    await ticker.pause()
    clock.advance(10)

    task = await ticker.run_now()

    assert (task.status, task.due_at) == (Status.PENDING, clock.now())
    with pytest.raises(TaskConflict, match=f"task {task.id} of schedule 'nightly' has not ended yet"):
        await ticker.run_now()
    await ticker.finish()
    schedule = await ticker.get()
    assert (schedule.last_task_id, schedule.paused, seconds([schedule.next_at], start)) == (task.id, True, [60])
    assert await ticker.ticks() == []


async def test_an_unchanged_schedule_keeps_its_next_tick_and_its_version_e10(ticker: Ticker, clock: FakeClock) -> None:
    start = clock.now()
    assert (await ticker.set()).created
    clock.advance(30)
    batches = []
    ticker.shop.engine.hub.listen(batches.append)

    again = await ticker.set(payload='{ "n" :1}')

    assert (again.created, again.schedule.version) == (False, 1)
    assert batches == []
    assert seconds([(await ticker.get()).next_at], start) == [60]


async def test_a_changed_payload_keeps_the_next_tick_and_a_changed_time_begins_anew_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = clock.now()
    await ticker.set()
    clock.advance(30)

    changed = await ticker.set(payload='{"n": 2}', template='{"priority": 3}')
    assert (changed.schedule.version, seconds([changed.schedule.next_at], start)) == (2, [60])
    retimed = await ticker.set(payload='{"n": 2}', template='{"priority": 3}', interval_seconds=100.0)
    assert seconds([retimed.schedule.next_at], start) == [130]
    await ticker.pass_time(100)

    [task] = await ticker.tasks()
    assert (task.payload.replace(" ", ""), task.priority) == ('{"n":2}', 3)


async def test_code_that_says_the_same_as_last_time_undoes_no_change_of_people_e10(ticker: Ticker) -> None:
    await ticker.set(content_hash="old")
    await ticker.set(payload='{"n": 9}')
    await ticker.pause()

    again = await ticker.set(content_hash="old")
    assert (again.schedule.paused, (await ticker.get()).payload.replace(" ", "")) == (True, '{"n":9}')

    newer = await ticker.set(content_hash="new", payload='{"n": 3}')
    assert (newer.schedule.payload, newer.schedule.content_hash, newer.schedule.paused) == ('{"n": 3}', "new", True)


async def test_a_schedule_that_is_deleted_while_one_runs_ends_quietly_e10(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set()
    await ticker.pass_time(60)
    claimed = await ticker.take()
    await ticker.delete()
    clock.advance(600)

    done = await ticker.shop.report(claimed, "completed")

    await ticker.turn()
    assert done.status is Status.COMPLETED
    assert len(await ticker.tasks()) == 1
    with pytest.raises(ScheduleNotFound):
        await ticker.pause()


async def test_one_that_is_made_anew_is_not_held_up_by_what_the_deleted_one_left_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = await ticker.begin()
    claimed = await ticker.take()
    await ticker.delete()

    assert (await ticker.set()).created
    await ticker.pass_time(60)
    await ticker.shop.report(claimed, "completed")

    assert seconds(await ticker.ticks(), start) == [60, 120]
    assert len(await ticker.tasks()) == 2


async def test_the_task_of_a_tick_may_be_run_again_without_disturbing_the_ticks_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = await ticker.begin()
    first = await ticker.finish()
    await ticker.pass_time(60)
    await ticker.finish()
    await ticker.shop.steer(first, "rerun")

    await ticker.pass_time(60)

    assert seconds(await ticker.ticks(), start) == [60, 120, 180]


async def test_the_end_of_an_older_task_makes_no_other_while_the_last_one_is_open_e10(
    ticker: Ticker, clock: FakeClock
) -> None:
    start = await ticker.begin()
    first = await ticker.finish()
    await ticker.pass_time(60)
    await ticker.shop.steer(first, "rerun")
    await ticker.pass_time(60)

    await ticker.shop.steer(first, "cancel")

    assert seconds(await ticker.ticks(), start) == [60, 120]


async def test_the_last_task_run_again_holds_the_next_tick_until_it_ends_e10(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set()
    await ticker.pass_time(60)
    first = await ticker.finish()
    await ticker.shop.steer(first, "rerun")
    await ticker.pass_time(70)
    assert len(await ticker.tasks()) == 1

    await ticker.finish()

    assert len(await ticker.tasks()) == 2


async def test_many_schedules_are_due_at_once_and_each_ticks_once_e10(ticker: Ticker, clock: FakeClock) -> None:
    commands = []
    for n in range(30):
        ticker.name = f"s{n}"
        commands.append(ticker.command(template=f'{{"target": "t{n % 3}", "pool": "p{n % 2}"}}'))
    await asyncio.gather(*(ticker.shop.engine.run(command) for command in commands))

    await ticker.pass_time(60)
    await ticker.turn()

    tasks = await ticker.tasks()
    assert len({task.schedule_id for task in tasks}) == len(tasks) == 30


async def test_settling_a_hundred_at_once_makes_each_its_next_e10(ticker: Ticker, clock: FakeClock) -> None:
    for n in range(20):
        ticker.name = f"s{n}"
        await ticker.set()
    await ticker.pass_time(60)
    first = await ticker.tasks()
    clock.advance(60)

    await asyncio.gather(*(ticker.shop.steer(task, "cancel") for task in first))

    assert len(await ticker.tasks()) == 40


async def test_a_schedule_and_its_run_in_one_commit_use_what_was_set_e10(ticker: Ticker) -> None:
    await ticker.set()
    changed = ticker.command(template='{"pool": "gpu", "target": "new"}')

    _, task = await asyncio.gather(ticker.shop.engine.run(changed), ticker.run_now())

    assert (task.pool, task.target) == ("gpu", "new")


async def test_the_payload_keeps_the_schema_that_it_was_checked_against_e10(ticker: Ticker, clock: FakeClock) -> None:
    await ticker.set()
    replaced = RegisterJob(
        principal=ticker.shop.principal,
        room="@global",
        category="tasks",
        name="noop",
        schema='{"type": "object", "required": ["m"]}',
        retain=True,
        replace=True,
        make_worker=False,
    )
    await ticker.shop.engine.run(replaced)

    await ticker.pass_time(60)

    [task] = await ticker.tasks()
    assert task.schema_version == 1
    with pytest.raises(SchemaMoved):
        await ticker.set(payload='{"n": 2}')


async def test_a_job_with_a_schedule_is_no_orphan_until_that_is_deleted_z6(ticker: Ticker) -> None:
    job = await ticker.shop.register("lonely", retain=False)
    await ticker.set(job_name=job)
    engine = ticker.shop.engine
    async with engine.store.read() as connection:
        assert await possible_orphans(connection) == []

    await ticker.delete()

    with pytest.raises(JobNotFound):
        await ticker.set(job_name=job)


async def test_an_orphan_that_gets_a_schedule_in_the_same_commit_stays_z6(ticker: Ticker) -> None:
    job = await ticker.shop.register("lonely", retain=False)
    engine = ticker.shop.engine
    async with engine.store.read() as connection:
        orphans = await possible_orphans(connection)

    await asyncio.gather(engine.run(ticker.command(job_name=job)), engine.run(DeleteOrphans(orphans)))

    assert not (await ticker.set(job_name=job)).created


async def test_another_users_schedule_is_left_alone_g9(ticker: Ticker) -> None:
    await ticker.set()
    assert not (await ticker.set(principal=ANN)).created

    for command in (
        ticker.command(principal=ANN, payload="{}"),
        ticker.command(principal=ANN, paused=True),
    ):
        with pytest.raises(Forbidden, match="belongs to 'admin'"):
            await ticker.shop.engine.run(command)

    assert (await ticker.get()).version == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"cron": "61 * * * *"},
        {"cron": "0 0 * * *", "zone": "Mars/Base"},
        {"job_name": "lab:tasks:secret"},
        {"if_version": 5, "payload": "{}"},
    ],
)
async def test_what_is_refused_changes_nothing_g9(ticker: Ticker, changes: dict[str, object]) -> None:
    await ticker.set()
    before = await ticker.get()

    with pytest.raises(Refused):
        await ticker.set(**changes)

    assert await ticker.get() == before


async def test_an_expression_that_never_comes_true_is_refused_e10(ticker: Ticker) -> None:
    with pytest.raises(ValidationFailed, match="cron"):
        await ticker.set(cron="0 0 30 2 *")


async def test_cron_is_kept_to_the_minute_over_a_change_of_the_year_e10(ticker: Ticker, clock: FakeClock) -> None:
    clock.jump(86 * 86_400)  # to noon of 28 March 2026
    await ticker.set(cron="30 2 * * *", zone="Europe/Berlin")
    made = []
    for _ in range(3):
        schedule = await ticker.get()
        assert schedule.next_at is not None
        await ticker.pass_time((schedule.next_at - clock.now()) / timedelta(seconds=1))
        made.append(f"{(await ticker.tasks())[-1].due_at:%m-%d %H:%M}")
        await ticker.shop.steer((await ticker.tasks())[-1], "cancel")

    assert made == ["03-29 01:00", "03-30 00:30", "03-31 00:30"]


async def test_a_tick_that_meets_a_full_limit_that_rejects_is_skipped_and_told_and_the_next_one_is_not(
    ticker: Ticker, clock: FakeClock
) -> None:
    caps = Caps(concurrency=1, rate_count=None, rate_seconds=None, rate_burst=None, on_full="reject")
    limit = {"principal": SYSTEM, "room": "@global", "name": "api"}
    await ticker.shop.engine.run(SetLimit(**limit, caps=caps))
    [other] = await ticker.shop.submit(limits=[{"name": "api", "key": None, "weight": None}])
    await ticker.set(template='{"limits": [{"name": "api", "key": null, "weight": null}]}')
    tick = clock.now() + timedelta(seconds=60)

    await ticker.pass_time(60)
    skipped = await ticker.get()
    with pytest.raises(LimitFull, match="'api' of room @global is full"):
        await ticker.run_now()
    await ticker.shop.steer(other, "cancel")
    await ticker.pass_time(60)

    assert (skipped.skipped_at, skipped.skipped_for) == (tick, None)
    assert "concurrency is 1" in (skipped.skipped_why or "")
    [task] = await ticker.tasks()
    assert task.due_at == tick + timedelta(seconds=60)


async def test_the_task_that_follows_the_last_one_takes_the_room_that_this_one_leaves(
    ticker: Ticker, clock: FakeClock
) -> None:
    caps = Caps(concurrency=1, rate_count=None, rate_seconds=None, rate_burst=None, on_full="reject")
    await ticker.shop.engine.run(SetLimit(principal=SYSTEM, room="@global", name="api", caps=caps))
    await ticker.set(template='{"limits": [{"name": "api", "key": null, "weight": null}]}')
    worker = await ticker.shop.worker()
    await ticker.pass_time(60)
    [first] = await ticker.shop.claim(worker)

    await ticker.pass_time(60)
    await ticker.shop.run(first)

    assert (await ticker.get()).skipped_at is None
    assert [task.run_id for task in await ticker.shop.claim(worker, 5)] == [0]


async def test_a_tick_supersedes_what_waits_and_what_supersedes_its_task_lets_the_next_tick_come(
    ticker: Ticker, clock: FakeClock
) -> None:
    caps = Caps(concurrency=1, rate_count=None, rate_seconds=None, rate_burst=None, on_full="newest")
    await ticker.shop.engine.run(SetLimit(principal=SYSTEM, room="@global", name="api", caps=caps))
    limits = [{"name": "api", "key": None, "weight": None}]
    [waits] = await ticker.shop.submit(limits=limits)
    await ticker.set(template='{"limits": [{"name": "api", "key": null, "weight": null}]}')

    await ticker.pass_time(60)
    [first] = await ticker.tasks()
    [newest] = await ticker.shop.submit(limits=limits)
    await ticker.pass_time(60)

    stands = [await ticker.shop.get(task.id) for task in (waits, first, newest)]
    assert [task.reason for task in stands] == [Reason.SUPERSEDED] * 3
    assert (await ticker.get()).skipped_at is None
    assert [task.status for task in await ticker.tasks()] == [Status.CANCELLED, Status.PENDING]
