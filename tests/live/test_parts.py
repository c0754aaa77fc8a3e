"""The parts behind the socket by themselves: what waits to be sent, and what is counted."""

import asyncio
import json
from datetime import UTC, datetime

from tests.conftest import FakeClock
from tests.domain.test_states import new_task
from treadle.wire.status import Status
from treadle_server.engine.hub import Batch, Change
from treadle_server.live.outbox import FRAME_BYTES, Outbox
from treadle_server.live.rates import STEPS, Rates


async def test_items_are_gathered_into_frames_in_their_order():
    outbox = Outbox(10 * FRAME_BYTES)
    items = [json.dumps({"n": n, "x": "x" * 300_000}).encode() for n in range(5)]
    for item in items:
        outbox.put(item)

    frames = []
    while sum(len(frame["items"]) for frame in frames) < 5:
        frames.append(json.loads(await outbox.frame() or "{}"))

    assert [[item["n"] for item in frame["items"]] for frame in frames] == [[0, 1, 2], [3, 4]]


async def test_an_item_larger_than_a_frame_goes_alone():
    outbox = Outbox(FRAME_BYTES)
    outbox.put(json.dumps({"x": "x" * 2 * FRAME_BYTES}).encode())

    assert len(json.loads(await outbox.frame() or "{}")["items"]) == 1


async def test_more_than_the_limit_drops_everything_and_says_so():
    outbox = Outbox(100)
    for _ in range(20):
        outbox.put(b'{"x": 1234567890}')

    assert outbox.overflowed
    assert await outbox.frame() is None


async def test_an_empty_outbox_waits_for_the_next_item():
    outbox = Outbox(1000)
    frame = asyncio.create_task(outbox.frame())
    await asyncio.sleep(0)
    assert not frame.done()

    outbox.put(b"{}")

    assert await frame == '{"items":[{}]}'


def ended(status: Status, was: Status) -> Batch:
    task = new_task(status=status)
    return Batch(at=datetime(2026, 1, 1, tzinfo=UTC), tasks=[Change(task, was)])


def test_ends_are_counted_in_steps_of_ten_seconds_for_five_minutes(clock: FakeClock):
    rates = Rates(clock)
    rates.heed(ended(Status.COMPLETED, Status.RUNNING))
    rates.heed(ended(Status.FAILED, Status.RUNNING))
    rates.heed(ended(Status.COMPLETED, Status.COMPLETED))
    clock.advance(20)
    rates.heed(ended(Status.COMPLETED, Status.RUNNING))
    number = new_task().job_num

    history = rates.history(number)
    assert history["completed"] == [0] * (STEPS - 3) + [1, 0, 1]
    assert history["failed"] == [0] * (STEPS - 3) + [1, 0, 0]

    clock.advance(10 * STEPS)
    assert rates.roll()
    assert rates.history(number) == {"step_seconds": 10, "completed": [0] * STEPS, "failed": [0] * STEPS}
    clock.advance(10)
    assert not rates.roll()
