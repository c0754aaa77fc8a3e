"""Schedules after a clock that was ahead and is right again: they are timed anew where somebody asks for it (E10)."""

import pytest

from tests.conftest import FakeClock
from tests.schedules.conftest import Ticker, seconds

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("how", ["change", "make anew", "resume"])
async def test_after_a_clock_that_was_ahead_a_schedule_is_timed_anew_and_ticks_as_it_says_e10(
    ticker: Ticker, clock: FakeClock, how: str
) -> None:
    """Of each of its ticks there was a task already, which no other schedule's tick came past."""
    await ticker.set(cron="* * * * *")
    other = Ticker(ticker.shop, clock, name="other")
    await other.set(paused=True)
    begun = clock.now()
    for _ in range(5):
        await ticker.pass_time(60)
        await ticker.finish()
    clock.jump(-300)
    await other.set(interval_seconds=90.0, paused=False)

    match how:
        case "change":
            await ticker.set(cron="*/1 * * * *")
        case "make anew":
            await ticker.delete()
            await ticker.set(cron="* * * * *")
        case _:
            await ticker.pause()
            await ticker.pause(paused=False)
    await ticker.pass_time(60)
    await ticker.finish()
    await ticker.pass_time(60)

    later = (await ticker.tasks())[5:]
    own, others = [
        [task.due_at for task in later if task.schedule_id == schedule.id]
        for schedule in (await ticker.get(), await other.get())
    ]
    assert seconds(own, begun) == [60, 120]
    assert seconds(others, begun) == [90]
