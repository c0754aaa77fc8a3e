"""The parts behind the socket by themselves: what waits to be sent."""

import asyncio
import json

from treadle_server.live.outbox import FRAME_BYTES, Outbox


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


async def test_who_puts_work_in_is_told_when_there_is_room_for_more():
    outbox, eased = Outbox(100), []
    outbox.eased = lambda: eased.append(outbox.is_crowded)
    outbox.put(b"{}")
    assert not outbox.is_crowded

    outbox.put(b'{"x": "1234567890123456789"}')
    assert outbox.is_crowded
    await outbox.frame()

    assert eased == [False]
