"""Each rule of the head cache by itself; that all of them together never make it stale shows `test_head_cache.py`."""

import asyncio
from collections import defaultdict
from datetime import timedelta

import pytest

from tests.engine.dispatch.test_fairness import START, line, orders_of, slot, task
from treadle_server.engine.dispatch import head_cache as head_cache_module
from treadle_server.engine.dispatch.fairness import match
from treadle_server.engine.dispatch.head_cache import (
    FIRST_READ,
    LEAST_READ,
    MOST_BYTES,
    MOST_FOLLOWED,
    MOST_READ,
    PARTS,
    HeadCache,
    behind,
)
from treadle_server.store.base import Tx

KEEPS = Tx(None, "sqlite", 1)
LARGE = "x" * MOST_BYTES
"""A transaction of a database for which heads are kept; nothing is asked of it, for `heads` is replaced."""

pytestmark = pytest.mark.anyio

NOW = START


def order(one):
    return (-one.priority, one.due_at, one.seq)


class Rows:
    """The pending tasks of a database, and which lanes were read of it."""

    def __init__(self, *rows) -> None:
        self.rows = list(rows)
        self.read: list[tuple[int, int]] = []
        """Lane and depth of each read."""

    async def after(self, _tx, last, most, now):
        self.read += [(lane, most) for lane in last]
        behind = (row for row in self.rows if row.lane in last and order(row) > order(last[row.lane]))
        found = {lane: [] for lane in last}
        for row in sorted(behind, key=order):
            if len(found[row.lane]) < most:
                found[row.lane].append(row)
        return found

    async def heads(self, _tx, lanes, most, now, heaviest=10**6):
        found = defaultdict(list, {lane: [] for lane in lanes})
        self.read += [(lane, most) for lane in lanes]
        for row in sorted((row for row in self.rows if row.lane in found), key=order):
            in_time = row.deadline is None or row.deadline > now
            if row.weight <= heaviest and in_time and len(found[row.lane]) < most:
                found[row.lane].append(row)
        return dict(found)


@pytest.fixture
def rows(monkeypatch) -> Rows:
    rows = Rows(*(task(n) for n in range(10, 15)))
    monkeypatch.setattr(head_cache_module, "heads", rows.heads)
    monkeypatch.setattr(head_cache_module, "heads_after", rows.after)
    return rows


async def seqs(head_cache: HeadCache, most: int = 10, now=NOW) -> list[int]:
    return [one.seq for one in (await head_cache.fill(KEEPS, {1}, most, now))[1].tasks]


async def claim(head_cache: HeadCache, n: int, most: int = 10) -> list[int]:
    """Take the first `n` of lane 1, as a claim does."""
    cached = (await head_cache.fill(KEEPS, {1}, most, NOW))[1]
    head_cache.taken({1: n})
    return [cached.tasks.popleft().seq for _ in range(n)]


async def test_what_was_read_and_not_handed_out_is_there_for_the_next_claim(rows) -> None:
    head_cache = HeadCache()

    assert await claim(head_cache, 2) == [10, 11]
    assert await claim(head_cache, 2) == [12, 13]
    assert len(rows.read) == 1


async def test_a_lane_whose_stock_lasted_is_read_for_the_next_claims_too_and_a_dropped_one_is_not(rows) -> None:
    head_cache = HeadCache()
    rows.rows = [task(n) for n in range(100, 300)]
    for _ in range(2):
        await claim(head_cache, 10)
        rows.rows = rows.rows[10:]

    head_cache.drop([1])
    await claim(head_cache, 10)

    assert [depth for _, depth in rows.read] == [10, 40, 10]


async def test_what_is_read_ahead_while_a_claim_reads_on_behind_the_same_place_is_kept_once(rows, monkeypatch) -> None:
    head_cache, may_read = HeadCache(), asyncio.Event()
    rows.rows = [task(n) for n in range(100, 300)]
    taken = [seq for _ in range(6) for seq in await claim(head_cache, 8)]

    async def waiting(*details):
        await may_read.wait()
        return await rows.after(*details)

    monkeypatch.setattr(head_cache_module, "heads_after", waiting)
    reading = [head_cache.read_ahead(KEEPS, NOW), head_cache.fill(KEEPS, {1}, 10, NOW)]
    both = asyncio.gather(*reading)
    await asyncio.sleep(0)
    may_read.set()
    await both

    left = [one.seq for one in (await head_cache.fill(KEEPS, {1}, 10, NOW))[1].tasks]
    assert taken + left == list(range(100, 100 + len(taken) + len(left)))


async def test_what_is_left_of_a_stock_that_ran_short_stays_and_is_read_on_behind(rows) -> None:
    head_cache = HeadCache()
    rows.rows = [task(n) for n in range(100, 300)]
    taken = [*await claim(head_cache, 8), *await claim(head_cache, 8), *await claim(head_cache, 8)]

    cached = (await head_cache.fill(KEEPS, {1}, 10, NOW))[1]

    assert taken == list(range(100, 124))
    assert [one.seq for one in cached.tasks] == list(range(124, 150)), "ten at first, then forty behind the two left"
    assert rows.read == [(1, 10), (1, 40)]


async def test_behind_a_stock_whose_payloads_leave_no_room_for_a_claim_nothing_is_read_on(rows) -> None:
    head_cache = HeadCache()
    rows.rows = [task(n) for n in range(100, 300)]
    for one in rows.rows:
        one.payload = "x" * (MOST_BYTES // 16)
    await claim(head_cache, 2)
    await claim(head_cache, 2)

    await claim(head_cache, 10, most=40)

    assert rows.read[0] == (1, 10)
    assert all(depth >= 40 for _, depth in rows.read[2:]), "the claim has all that it may take"


async def test_a_dropped_lane_is_read_anew_and_no_other(rows) -> None:
    head_cache = HeadCache()
    rows.rows.append(task(20, lane=2))
    await head_cache.fill(KEEPS, {1, 2}, 10, NOW)
    rows.read.clear()
    rows.rows.append(task(1))

    head_cache.drop([1])

    assert await seqs(head_cache) == [1, 10, 11, 12, 13, 14]
    await head_cache.fill(KEEPS, {1, 2}, 10, NOW)
    assert [lane for lane, _ in rows.read] == [1]


async def test_after_a_failure_or_another_writer_everything_is_read_anew(rows) -> None:
    head_cache = HeadCache()
    await seqs(head_cache)

    head_cache.clear()

    await seqs(head_cache)
    assert len(rows.read) == 2


async def test_a_new_task_is_put_at_the_end_as_an_object_of_its_own(rows) -> None:
    head_cache, new = HeadCache(), task(15)
    await seqs(head_cache)

    head_cache.add([new])
    cached = (await head_cache.fill(KEEPS, {1}, 10, NOW))[1]

    assert [one.seq for one in cached.tasks] == [10, 11, 12, 13, 14, 15]
    assert cached.tasks[-1] == new
    assert cached.tasks[-1] is not new, "the submitter is told of the task as it was before its claim"
    assert len(rows.read) == 1


async def test_a_new_task_is_not_put_behind_a_head_of_which_the_rest_is_unknown(rows) -> None:
    head_cache = HeadCache()
    rows.rows += [task(n) for n in range(15, 40)]
    await seqs(head_cache, most=8)

    head_cache.add([task(50)])

    assert await seqs(head_cache, most=4) == [10, 11, 12, 13, 14, 15, 16, 17]


@pytest.mark.parametrize("is_all", [True, False], ids=["all", "more behind"])
@pytest.mark.parametrize(
    "new", [task(50, priority=1), task(50, due=-1), task(9)], ids=["more urgent", "due before", "put in before"]
)
async def test_a_new_task_that_goes_before_others_is_put_there_and_nothing_is_read(rows, new, is_all) -> None:
    head_cache = HeadCache()
    before = await seqs(head_cache, most=10 if is_all else 5)

    head_cache.add([new])

    assert await seqs(head_cache, most=5) == [new.seq, *before]
    assert len(rows.read) == 1


async def test_new_tasks_are_put_between_others_in_their_order(rows) -> None:
    head_cache = HeadCache()
    rows.rows = [task(10, priority=2), task(11), task(14, priority=-1)]
    await seqs(head_cache)

    head_cache.add([task(15, priority=1), task(12), task(16, priority=1), task(13, due=-1), task(17, priority=-1)])

    assert await seqs(head_cache) == [10, 15, 16, 13, 11, 12, 14, 17]
    assert len(rows.read) == 1


async def test_what_goes_before_others_of_as_many_as_are_kept_makes_its_lane_be_read_anew(rows, monkeypatch) -> None:
    monkeypatch.setattr(head_cache_module, "MOST_FOLLOWED", 5)
    head_cache, new = HeadCache(), task(15, priority=1)
    await seqs(head_cache)
    rows.rows.append(new)

    head_cache.add([new])

    assert await seqs(head_cache) == [15, 10, 11, 12, 13, 14]
    assert len(rows.read) == 2


async def test_a_new_task_of_a_lane_that_is_not_kept_is_not_kept_either(rows) -> None:
    head_cache = HeadCache()

    head_cache.add([task(15)])

    assert await seqs(head_cache) == [10, 11, 12, 13, 14]


async def test_nothing_overdue_is_handed_out_from_the_very_moment_of_its_deadline_c11(rows) -> None:
    head_cache = HeadCache()
    rows.rows[1].deadline = NOW + timedelta(seconds=5)

    assert await seqs(head_cache) == [10, 11, 12, 13, 14]
    assert await seqs(head_cache, now=NOW + timedelta(seconds=4.999)) == [10, 11, 12, 13, 14]
    assert await seqs(head_cache, now=NOW + timedelta(seconds=5)) == [10, 12, 13, 14]


async def test_a_deadline_that_is_put_behind_others_counts_too_c11(rows) -> None:
    head_cache, new = HeadCache(), task(15)
    new.deadline = NOW + timedelta(seconds=5)
    await seqs(head_cache)
    rows.rows.append(new)

    head_cache.add([new])

    assert await seqs(head_cache, now=NOW + timedelta(seconds=5)) == [10, 11, 12, 13, 14]


async def test_what_is_too_heavy_for_one_worker_does_not_hide_what_stands_behind_it_e5(rows) -> None:
    """E5: neither from it nor, once that is read, from the bigger worker whose turn it was."""
    rows.rows = [*(task(n, weight=9) for n in range(20)), task(20), task(21, weight=5)]
    head_cache = HeadCache()
    cached_heads = await head_cache.fill(KEEPS, {1}, 2, NOW)

    light = await behind(None, cached_heads, {1: {4, 6, 10}}, 2, NOW)

    assert [one.seq for one in cached_heads[1].tasks] == [0, 1]
    assert {capacity: [one.seq for one in found] for capacity, found in light[1].items()} == {4: [20], 6: [20, 21]}


async def test_nothing_is_read_behind_a_head_that_has_something_for_everyone_or_is_all_there_is(rows) -> None:
    rows.rows = [task(1, weight=9), task(2), *(task(n, weight=9) for n in range(3, 30)), task(40, lane=2, weight=9)]
    cached_heads = await HeadCache().fill(KEEPS, {1, 2}, 4, NOW)
    rows.read.clear()

    assert await behind(None, cached_heads, {1: {4, 10}, 2: {4, 10}}, 4, NOW) == {}
    assert rows.read == []


async def test_a_small_and_a_big_worker_are_served_from_one_lane_in_its_order_e5() -> None:
    heavy = line(1, [task(1, weight=9), task(2, weight=9)])
    heavy.is_all = False
    heavy.light = {4: line(1, [task(30), task(31)]).tasks, 6: line(1, [task(30), task(31)]).tasks}
    workers = [slot(name, [1], concurrency=c) for name, c in (("small", 4), ("middle", 6), ("big", 10))]

    matched = match(orders_of([heavy]), workers)

    assert [(demand.worker_id, one.seq) for demand, one in matched] == [("small", 30), ("middle", 31), ("big", 1)]


async def test_a_lane_of_which_more_is_to_be_read_stops_the_claim_when_it_runs_dry_l9() -> None:
    """L9: what it does not know may come before what other lanes have."""
    urgent = line(1, [task(1, priority=5)])
    urgent.is_all = False

    matched = match(orders_of([urgent, line(2, [task(2, lane=2), task(3, lane=2)])]), [slot("w", [1, 2])])

    assert [one.seq for _, one in matched] == [1]
    matched = match(orders_of([line(1, [task(1, priority=5)]), line(2, [task(2, lane=2)])]), [slot("w", [1, 2])])
    assert [one.seq for _, one in matched] == [1, 2]


async def test_a_lane_that_is_dry_for_the_smaller_worker_stops_the_claim_too_e5() -> None:
    urgent = line(1, [task(1, priority=5), *(task(n, priority=5, weight=9) for n in range(2, 8))])
    urgent.is_all = False
    workers = [slot("small", [1, 2], concurrency=4), slot("big", [1, 2], concurrency=10)]

    matched = match(orders_of([urgent, line(2, [task(20, lane=2)])]), workers)

    assert [one.seq for _, one in matched] == [1], "the small one may not have lane 2's before what stands behind"


async def test_a_task_with_a_target_is_never_kept_l2(rows) -> None:
    head_cache = HeadCache()
    rows.rows[3].target_num = 7

    assert await seqs(head_cache) == await seqs(head_cache) == [10, 11, 12, 13, 14]
    assert len(rows.read) == 2


async def test_a_new_task_with_a_target_makes_its_lane_be_read_anew_l2(rows) -> None:
    head_cache, new = HeadCache(), task(15)
    new.target_num = 7
    await seqs(head_cache)

    head_cache.add([new])

    assert await seqs(head_cache) == [10, 11, 12, 13, 14], "it is blocked until its target is settled"
    assert len(rows.read) == 2


async def test_no_more_than_so_many_tasks_of_a_lane_are_kept_and_the_rest_is_not_forgotten(rows) -> None:
    head_cache = HeadCache()
    new = [task(n) for n in range(15, 15 + MOST_FOLLOWED)]
    await seqs(head_cache)
    rows.rows += new

    head_cache.add(new)

    assert len(await seqs(head_cache)) == MOST_FOLLOWED
    assert await claim(head_cache, MOST_FOLLOWED) == [one.seq for one in rows.rows[:MOST_FOLLOWED]]
    assert await seqs(head_cache) == [one.seq for one in rows.rows[:40]], (
        "the database's word, for the rows are still there"
    )


async def test_large_payloads_are_not_kept(rows) -> None:
    head_cache = HeadCache()
    rows.rows[0].payload = "x" * MOST_BYTES

    assert await seqs(head_cache) == await seqs(head_cache)
    assert len(rows.read) == 2


async def test_of_large_payloads_no_more_is_read_at_once_than_some_megabytes(rows) -> None:
    """A hundred of a megabyte were read for each claim, to hand out eight of them."""
    rows.rows = [task(n) for n in range(300)]
    for one in rows.rows:
        one.payload = LARGE
    head_cache = HeadCache()

    first = (await head_cache.fill(KEEPS, {1}, 100, NOW))[1]
    await head_cache.fill(KEEPS, {1}, 100, NOW)

    assert not first.is_all
    assert rows.read == [(1, FIRST_READ), (1, MOST_READ // len(LARGE))]


async def test_a_large_payload_that_is_put_in_later_is_not_kept_either(rows) -> None:
    head_cache, new = HeadCache(), task(15)
    new.payload = "x" * MOST_BYTES
    await seqs(head_cache)
    rows.rows.append(new)

    head_cache.add([new])

    assert await seqs(head_cache) == [10, 11, 12, 13, 14, 15]
    assert len(rows.read) == 2


@pytest.mark.parametrize(("bound", "value"), [("MOST", 4), ("MOST_BYTES_IN_ALL", 9)])
async def test_when_too_much_is_kept_in_all_it_is_given_up(rows, monkeypatch, bound, value) -> None:
    monkeypatch.setattr(head_cache_module, bound, value)
    head_cache = HeadCache()

    await claim(head_cache, 0)
    await claim(head_cache, 0)

    assert len(rows.read) == 2


async def test_a_lane_that_gave_more_than_its_share_is_read_deeper_the_next_time(rows) -> None:
    rows.rows = [task(n, lane=lane) for lane in range(1, 101) for n in range(lane * 1000, lane * 1000 + 300)]
    head_cache = HeadCache()
    await head_cache.fill(KEEPS, set(range(1, 101)), 100, NOW)
    assert max(depth for _, depth in rows.read) < 2 * LEAST_READ

    head_cache.taken({1: 20})
    rows.read.clear()
    await head_cache.fill(KEEPS, set(range(1, 101)), 100, NOW)

    assert rows.read == [(1, 400)], "for the claim, of which it may well be all again, and for the next ones"


async def test_of_more_lanes_than_tasks_are_kept_no_more_is_read_than_a_claim_may_take_and_that_stays(
    rows, monkeypatch
) -> None:
    monkeypatch.setattr(head_cache_module, "MOST", 40)
    rows.rows = [task(n, lane=lane) for lane in range(1, 31) for n in range(lane * 1000, lane * 1000 + 20)]
    head_cache = HeadCache()

    await head_cache.fill(KEEPS, set(range(1, 31)), 10, NOW)
    head_cache.taken({})
    first, rows.read = rows.read, []
    await head_cache.fill(KEEPS, set(range(1, 31)), 10, NOW)

    assert sorted(first) == [(lane, 2) for lane in range(1, 31)]
    assert rows.read == [], "two of each are more than are kept of fewer lanes, and are kept all the same"


async def test_what_a_target_may_block_is_put_into_no_head_that_the_order_among_queues_may_have_l2(rows) -> None:
    head_cache = HeadCache()
    cached = (await head_cache.fill(KEEPS, {1}, 10, NOW))[1]
    cached.tasks.clear()
    blocked = task(20)
    blocked.target_num = 1

    head_cache.add([blocked])

    assert not cached.tasks
    assert head_cache._heads == {}


async def test_no_more_is_read_ahead_than_may_be_kept_in_all(rows, monkeypatch) -> None:
    monkeypatch.setattr(head_cache_module, "MOST", 30)
    rows.rows = [task(n, lane=lane) for lane in (1, 2, 3) for n in range(lane * 1000, lane * 1000 + 100)]
    head_cache = HeadCache()
    cached_heads = (await head_cache.fill(KEEPS, {1, 2, 3}, 10, NOW)).values()
    assert [len(cached.tasks) for cached in cached_heads] == [10, 10, 10]
    for cached in cached_heads:
        for _ in range(9):
            cached.tasks.popleft()

    await head_cache.read_ahead(KEEPS, NOW)

    assert [len(cached.tasks) for cached in cached_heads] == [10, 10, 10]


async def test_where_nothing_is_kept_no_more_is_read_and_locked_than_is_taken(monkeypatch):
    depths = []

    async def heads(tx, lanes, depth, now, heaviest=0):
        depths.append(depth)
        return {lane: [] for lane in lanes}

    monkeypatch.setattr(head_cache_module, "heads", heads)
    await HeadCache().fill(Tx(None, "postgresql"), range(1, 101), 100, NOW)
    await HeadCache().fill(KEEPS, set(range(1, 101)), 100, NOW)

    assert depths == [2, *range(LEAST_READ, LEAST_READ + PARTS)]


async def test_lanes_that_are_read_together_run_short_one_after_the_other(rows) -> None:
    """A hundred of them take as long to be read as the worker needs for all that it was given."""
    rows.rows = [task(n, lane=lane) for lane in range(1, 101) for n in range(lane * 1000, lane * 1000 + 170)]
    head_cache, read = HeadCache(), []
    for _ in range(60):
        rows.read.clear()
        cached_heads = await head_cache.fill(KEEPS, set(range(1, 101)), 100, NOW)
        read.append(len(rows.read))
        taken = {cached.tasks.popleft().seq for cached in cached_heads.values()}
        rows.rows = [one for one in rows.rows if one.seq not in taken]
        head_cache.taken(dict.fromkeys(cached_heads, 1))

    assert read[0] == 100
    assert max(read[1:]) <= 2 * 100 // PARTS
    assert sum(read[1:]) < 60 * 100 / 6, "each stands there for six claims and more"


async def test_what_a_large_claim_took_does_not_make_a_small_one_read_anew(rows) -> None:
    rows.rows = [task(n, lane=lane) for lane in range(1, 101) for n in range(lane * 1000, lane * 1000 + 300)]
    head_cache = HeadCache()
    cached_heads = await head_cache.fill(KEEPS, set(range(1, 101)), 100, NOW)
    for _ in range(4):
        for cached in cached_heads.values():
            cached.tasks.popleft()
    head_cache.taken(dict.fromkeys(cached_heads, 4))
    rows.read.clear()

    await head_cache.fill(KEEPS, set(range(1, 101)), 100, NOW)

    assert rows.read == []
