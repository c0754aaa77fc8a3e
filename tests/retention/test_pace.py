"""Retention works in steps that others hardly notice, by itself, and as the settings say (E12)."""

from datetime import timedelta

import pytest
from pydantic import ValidationError
from sqlalchemy import select, update

from tests.engine.conftest import Shop
from tests.retention.conftest import ended, left
from treadle.wire.status import Status
from treadle_server.engine.commands import SweepWorkers
from treadle_server.engine.commands.prune import PruneWorkers
from treadle_server.errors import TooManyRequests
from treadle_server.services import retention
from treadle_server.services.retention import EVERY, Retention, RetentionWalk, StepPace, cutoffs_of
from treadle_server.settings import DAY, Settings
from treadle_server.store.tables import workers
from treadle_server.store.transaction import prune

pytestmark = pytest.mark.anyio


def settle(pace: StepPace, cost: float, steps: int = 30) -> list[float]:
    """Take steps in which a task costs so many seconds; return how long each held the writer."""
    held = []
    for _ in range(steps):
        rows = pace.rows
        held.append(rows * cost)
        pace.note(rows, held[-1], held[-1] + 0.001, is_alone=False)
    return held


@pytest.mark.parametrize("cost", [1e-6, 50e-6, 1e-3])
def test_steps_grow_until_they_hold_the_writer_for_some_milliseconds_and_no_longer_e12(cost) -> None:
    pace = StepPace()

    held = settle(pace, cost)

    assert max(held) <= 0.0101
    fitting = int(retention.TARGET_SECONDS / cost + 1e-9)
    assert pace.rows == max(retention.LEAST_ROWS, min(retention.MOST_ROWS, fitting))
    assert pace.rest == pytest.approx(max(retention.LEAST_REST, 4 * (held[-1] + 0.001)))


def test_a_step_that_was_dear_makes_the_next_one_small_at_once_and_it_grows_again_slowly_e12() -> None:
    pace = StepPace()
    settle(pace, 20e-6)
    assert pace.rows == 200

    pace.note(200, 0.2, 0.25, is_alone=False)

    assert (pace.rows, pace.rest) == (retention.LEAST_ROWS, pytest.approx(1.0))
    assert 5 < settle(pace, 20e-6, 4)[-1] / 20e-6 <= 40
    settle(pace, 20e-6, 60)
    assert pace.rows > 150


async def test_a_step_is_followed_by_a_long_pause_only_where_others_want_the_writer_e12(
    shop, clock, monkeypatch
) -> None:
    """With nothing else to do the server rested for four fifths of the time."""
    monkeypatch.setattr(retention, "REST", 1_000.0)
    pauses = []
    for _ in range(2):
        for task in await shop.submit(retention.FIRST_ROWS):
            await shop.steer(task, "cancel")
    walk = RetentionWalk(shop.engine, cutoffs_of({Status.CANCELLED: timedelta()}, clock.now()))
    for _ in range(2):
        await walk.step()
        pauses.append(walk.pace.rest)
        await shop.submit(1)

    assert pauses[0] == retention.LEAST_REST < pauses[1]


async def test_a_step_ends_where_its_time_is_up_and_the_rest_is_left_to_the_next_e12(shop, monkeypatch) -> None:
    monkeypatch.setattr(prune, "LONGEST", 0.0)
    monkeypatch.setattr(retention, "FIRST_ROWS", 50)
    monkeypatch.setattr(StepPace, "note", lambda *_, **__: None)
    tasks = await shop.submit(40)
    for task in tasks:
        await shop.steer(task, "cancel")
    service = Retention(shop.engine, {Status.CANCELLED: shop.engine.clock.now() - shop.engine.clock.now()})
    sizes = [len(tasks)]

    while sizes[-1]:
        assert await service.turn() < EVERY
        sizes.append(len(await left(shop)))

    assert sizes == [40, 24, 8, 0]


async def test_the_service_removes_what_is_past_its_time_in_one_walk_and_then_rests_e12(shop, clock) -> None:
    settings = Settings(retention_failed_seconds=0)
    failed, old = await ended(shop, Status.FAILED), await ended(shop)
    clock.advance(29 * DAY)
    young = await ended(shop)
    clock.advance(2 * DAY)
    service = Retention(shop.engine, settings.retention)

    pauses = [await service.turn()]
    while pauses[-1] < EVERY:
        pauses.append(await service.turn())

    assert len(pauses) == 2
    assert await left(shop) == {failed.id, young.id}
    assert old.id not in await left(shop)


@pytest.mark.parametrize("failed_seconds", [90 * DAY, 0])
async def test_a_worker_is_forgotten_that_was_lost_before_all_that_is_kept_e12(shop, clock, failed_seconds) -> None:
    """The rows of lost workers stayed for ever, in each list of workers too."""
    service = Retention(shop.engine, Settings(retention_failed_seconds=failed_seconds).retention)
    old = await shop.worker()
    clock.advance(2 * DAY)
    await shop.engine.run(SweepWorkers(timeout=DAY))
    clock.advance(45 * DAY)
    young = await shop.worker()
    clock.advance(44 * DAY)
    await shop.engine.run(SweepWorkers(timeout=DAY))
    back = await shop.worker()

    await service.turn()
    assert await _workers(shop) == {old, young, back}
    clock.advance(2 * DAY)
    await service.turn()
    await service.turn()

    assert await _workers(shop) == ({young, back} if failed_seconds else {old, young, back})


async def test_a_worker_that_has_come_back_meanwhile_or_holds_something_is_not_forgotten_e12(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)
    assert await shop.engine.run(PruneWorkers(ids=[worker], before=clock.now() + timedelta(1))) == 0
    async with shop.engine.store.write() as tx:
        await tx.connection.execute(update(workers).values(state="lost", lost_at=clock.now()))

    gone = await shop.engine.run(PruneWorkers(ids=[worker], before=clock.now() + timedelta(1)))

    assert (gone, await _workers(shop), (await shop.get(task.id)).worker_id) == (0, {worker}, worker)


async def _workers(shop: Shop) -> set[str]:
    async with shop.engine.store.read() as connection:
        return set((await connection.execute(select(workers.c.id))).scalars())


async def test_who_submits_goes_first_when_the_writer_is_full_e12(shop, monkeypatch) -> None:
    task = await ended(shop)
    service = Retention(shop.engine, {Status.COMPLETED: shop.engine.clock.now() - shop.engine.clock.now()})
    run = shop.engine.run

    async def full(command):
        raise TooManyRequests("full")

    monkeypatch.setattr(shop.engine, "run", full)
    assert await service.turn() == retention.BUSY_REST
    monkeypatch.setattr(shop.engine, "run", run)

    await service.turn()

    assert task.id not in await left(shop)


def test_ended_tasks_are_kept_for_weeks_by_default_and_for_ever_where_0_is_set_e12(monkeypatch) -> None:
    for name in ("COMPLETED", "FAILED", "CANCELLED"):
        monkeypatch.delenv(f"TREADLE_RETENTION_{name}_SECONDS", raising=False)
    ages = {status: age.total_seconds() / DAY for status, age in Settings().retention.items()}
    assert ages == {Status.COMPLETED: 30, Status.FAILED: 90, Status.CANCELLED: 30}

    monkeypatch.setenv("TREADLE_RETENTION_COMPLETED_SECONDS", "0")
    monkeypatch.setenv("TREADLE_RETENTION_FAILED_SECONDS", "60")
    monkeypatch.setenv("TREADLE_RETENTION_CANCELLED_SECONDS", "0")
    assert {status: age.total_seconds() for status, age in Settings().retention.items()} == {Status.FAILED: 60}
    monkeypatch.setenv("TREADLE_RETENTION_FAILED_SECONDS", "-1")
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        Settings()


async def test_a_server_that_keeps_everything_has_nothing_to_do_e12(shop) -> None:
    await ended(shop)

    assert await Retention(shop.engine, {}).turn() == EVERY
    assert len(await left(shop)) == 1
