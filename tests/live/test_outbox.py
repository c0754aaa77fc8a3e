"""The parts behind the socket by themselves: what waits to be sent."""

import asyncio
import json

from treadle_server.live.outbox import FRAME_BYTES, SHARE, Backlog, Outbox


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


async def test_an_item_is_taken_however_large_it_is_and_drops_what_comes_behind_it():
    outbox = Outbox(100)
    outbox.put(b'{"x": 1}')
    outbox.put(b'{"x": "' + b"x" * 200 + b'"}')
    assert not outbox.overflowed
    assert not outbox.has_room()

    outbox.put(b"{}")

    assert outbox.overflowed


async def test_who_waits_for_room_goes_on_when_there_is_some_and_when_nobody_reads_any_more():
    outbox = Outbox(100)
    await outbox.room()
    outbox.put(b'{"x": "' + b"x" * 50 + b'"}')
    waiting = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()

    await outbox.frame()
    await waiting
    outbox.put(b'{"x": "' + b"x" * 50 + b'"}')
    waiting = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    outbox.close()

    await waiting
    outbox.put(b"{}")
    assert not outbox._items


async def test_an_empty_outbox_waits_for_the_next_item():
    outbox = Outbox(1000)
    frame = asyncio.create_task(outbox.frame())
    await asyncio.sleep(0)
    assert not frame.done()

    outbox.put(b"{}")

    assert await frame == '{"items":[{}]}'


async def test_who_puts_work_in_is_told_when_there_is_room_for_more():
    outbox, eased = Outbox(100), []
    outbox.eased.add(lambda: eased.append(outbox.is_crowded))
    outbox.put(b"{}")
    assert not outbox.is_crowded

    outbox.put(b'{"x": "1234567890123456789"}')
    assert outbox.is_crowded
    await outbox.frame()

    assert eased == [False]


async def test_where_too_much_waits_on_all_sockets_who_reads_nothing_is_dropped_and_who_reads_is_not():
    backlog = Backlog(1000)
    slow, quick = Outbox(100 * SHARE, backlog), Outbox(100 * SHARE, backlog)
    quick.put(b"x" * 50)
    slow.put(b"x" * 1000)
    assert backlog.size > backlog.most

    quick.put(b"y" * 30)
    slow.put(b"y")

    assert (slow.overflowed, quick.overflowed) == (True, False)
    assert backlog.size == 80
    quick.close()
    assert backlog.size == 0


async def test_who_waits_for_room_while_too_much_waits_elsewhere_goes_on_when_its_own_is_read():
    backlog = Backlog(1000)
    slow, quick = Outbox(100 * SHARE, backlog), Outbox(100 * SHARE, backlog)
    quick.put(b"x" * 50)
    slow.put(b"x" * 1000)
    assert quick.is_crowded
    waiting = asyncio.create_task(quick.room())
    await asyncio.sleep(0)
    assert not waiting.done()

    await quick.frame()

    await waiting
    assert not quick.is_crowded
    quick.put(b"y" * 50)
    assert quick.is_crowded
    slow.close()
    assert not quick.is_crowded
    await quick.room()
