"""Who gets which task: pure, without a database."""

from collections import deque
from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from tests.domain.made import new_task
from treadle_server.domain.jobs import Lane
from treadle_server.engine.dispatch.fairness import LaneHead, ServiceOrders, match
from treadle_server.engine.dispatch.slots import WorkerSlot

START = datetime(2026, 1, 1, tzinfo=UTC)


def line(lane_id: int, tasks, *, job=None, room="@global", pool="") -> LaneHead:
    return LaneHead(Lane(lane_id, job or lane_id, "", pool), room, deque(tasks))


def slot(worker: str, jobs, *, concurrency=8, pool=None) -> WorkerSlot:
    return WorkerSlot(worker, frozenset(jobs), pool, concurrency, 0, 0, deliver=lambda _tasks: None)


def task(seq, *, lane=1, priority=0, weight=1, due=0):
    return new_task(
        seq=seq, id=str(seq), lane=lane, priority=priority, weight=weight, due_at=START + timedelta(seconds=due)
    )


def orders_of(lines) -> ServiceOrders:
    orders = ServiceOrders()
    orders.update(lines)
    return orders


def given_to(lines, slots) -> list[tuple[str, int]]:
    return [(demand.worker_id, t.seq) for demand, t in match(orders_of(lines), slots)]


def test_jobs_take_turns_within_a_priority_l9() -> None:
    many = line(1, [task(n) for n in range(1, 9)])
    one = line(2, [task(100, lane=2)])

    claimed = given_to([many, one], [slot("w", [1, 2], concurrency=4)])

    assert 100 in [seq for _, seq in claimed]
    assert [seq for _, seq in claimed if seq < 100] == [1, 2, 3]


def test_a_higher_priority_goes_before_any_turn_l9() -> None:
    low = line(1, [task(1)])
    high = line(2, [task(n, lane=2, priority=9) for n in (2, 3, 4)])

    assert [seq for _, seq in given_to([low, high], [slot("w", [1, 2])])] == [2, 3, 4, 1]


def test_rooms_take_turns_before_jobs_do_l9() -> None:
    crowded = [line(n, [task(n * 10 + i, lane=n) for i in range(5)], room="a") for n in (1, 2, 3, 4)]
    lonely = line(9, [task(90, lane=9), task(91, lane=9)], room="b")

    claimed = [seq for _, seq in given_to([*crowded, lonely], [slot("w", [1, 2, 3, 4, 9], concurrency=4)])]

    assert {90, 91} <= set(claimed)


def test_a_task_too_heavy_for_a_worker_is_left_for_a_bigger_one_e5() -> None:
    tasks = line(1, [task(1, weight=10), task(2)])

    assert given_to([tasks], [slot("small", [1], concurrency=4), slot("big", [1], concurrency=10)]) == [
        ("small", 2),
        ("big", 1),
    ]


def test_a_heavy_task_at_the_head_is_waited_for_and_not_overtaken_e5() -> None:
    busy = slot("w", [1], concurrency=4)
    busy.hold({("x", 0): 2})

    assert given_to([line(1, [task(1, weight=3), task(2)])], [busy]) == []


def test_a_task_with_a_pool_goes_to_that_pool_only_and_one_without_anywhere_c3() -> None:
    pooled = line(1, [task(1)], job=1, pool="gpu")
    free = line(2, [task(2, lane=2)], job=1)

    assert given_to([pooled, free], [slot("cpu", [1], pool="cpu")]) == [("cpu", 2)]
    assert given_to([pooled], [slot("gpu", [1], pool="gpu")]) == [("gpu", 1)]


def test_a_worker_with_a_minimum_asks_only_when_it_holds_less_e6() -> None:
    asking = WorkerSlot("w", frozenset({1}), None, 8, 2, 0, deliver=lambda _tasks: None)
    asking.hold({("a", 0): 1})
    assert asking.room() == 7
    asking.hold({("a", 0): 1, ("b", 0): 1})
    assert asking.room() == 0


@example([(1, 0, 3, 0), (1, 0, 1, 1), (1, 0, 3, 2), (1, 0, 1, 3), (1, 0, 1, 4)], [5, 5])  # waits for what another takes
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-2, 2), st.integers(1, 3), st.integers(0, 5)), max_size=40),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_nothing_is_given_twice_nobody_is_overloaded_and_each_queue_keeps_its_order(specs, capacities) -> None:
    tasks = [task(n, lane=lane, priority=p, weight=w, due=d) for n, (lane, p, w, d) in enumerate(specs)]
    lines = [
        line(lane, sorted((t for t in tasks if t.lane == lane), key=lambda t: (-t.priority, t.due_at, t.seq)))
        for lane in (1, 2, 3, 4)
    ]
    slots = [slot(f"w{n}", [1, 2, 3, 4], concurrency=c) for n, c in enumerate(capacities)]

    claimed = match(orders_of(lines), slots)

    assert len({t.seq for _, t in claimed}) == len(claimed)
    assert all(s.used <= s.concurrency for s in slots)
    heaviest = max(capacities)
    for lane in (1, 2, 3, 4):
        order = [t for _, t in claimed if t.lane == lane and t.weight <= min(capacities)]
        assert order == sorted(order, key=lambda t: (-t.priority, t.due_at, t.seq))
    left = [t for one in lines for t in one.tasks if t.weight <= heaviest]
    assert not left or all(s.room() < max(t.weight for t in left) for s in slots if s.concurrency >= heaviest)
