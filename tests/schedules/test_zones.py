"""A schedule in a time zone that this server does not know, as another one's newer files had it: only it waits."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.schedules.conftest import Ticker
from treadle.wire.status import Status
from treadle_server.store.tables import schedules

pytestmark = pytest.mark.anyio


async def move(ticker: Ticker, zone: str) -> None:
    """Put the schedule where it would never have been let."""
    async with ticker.shop.engine.store.write() as tx:
        await tx.connection.execute(sa.update(schedules).where(schedules.c.name == ticker.name).values(zone=zone))


@pytest.mark.parametrize("missed", ["late", "skip"])
async def test_a_tick_in_an_unknown_zone_is_skipped_and_told_and_stops_no_other_schedule_e10(
    ticker: Ticker, clock: FakeClock, missed: str
) -> None:
    other = Ticker(ticker.shop, clock, name="other")
    await other.set()
    await ticker.set(cron="1 12 * * *", missed=missed)
    begun = clock.now()
    assert (await ticker.get()).next_at == begun + timedelta(minutes=1)
    await move(ticker, "Europe/Nowhere")

    await ticker.pass_time(60)
    skipped, others = await ticker.get(), await other.tasks()
    await ticker.pass_time(60)
    again = await ticker.get()
    await move(ticker, "Etc/UTC")
    await ticker.pass_time(60)

    assert [task.created_at for task in others] == [begun + timedelta(minutes=1)]
    assert (skipped.skipped_at, skipped.skipped_for) == (begun + timedelta(minutes=1), None)
    assert "'Europe/Nowhere' is not a time zone that the server knows" in (skipped.skipped_why or "")
    assert "update the tzdata" in (skipped.skipped_why or "")
    assert [skipped.next_at, again.next_at] == [begun + timedelta(minutes=minutes) for minutes in (2, 3)]
    assert (await ticker.get()).next_at == begun + timedelta(days=1, minutes=1)
    own = (await ticker.get()).id
    made = [task.created_at for task in await ticker.tasks() if task.schedule_id == own]
    assert made == ([begun + timedelta(minutes=3)] if missed == "late" else [])


async def test_the_task_of_a_schedule_in_an_unknown_zone_ends_and_others_of_its_commit_do_e10(ticker: Ticker) -> None:
    await ticker.set(cron="* * * * *")
    await ticker.pass_time(60)
    taken = await ticker.take()
    await move(ticker, "Europe/Nowhere")
    await ticker.pass_time(60)

    ended = await ticker.shop.report(taken, "completed")

    assert ended.status is Status.COMPLETED
    assert "is not a time zone" in ((await ticker.get()).skipped_why or "")
