"""What waits for the rate of a limit tells when it starts: not sooner than the rate allows, and near to what comes."""

import re
from datetime import datetime, timedelta

import pytest
from sqlalchemy import event

from tests.engine.test_limits import named, set_limit
from treadle_server.engine.commands import OpenLimits
from treadle_server.store.read import limit_starts
from treadle_server.store.read.limits import limit_waits
from treadle_server.store.read.tasks import see

pytestmark = pytest.mark.anyio


INTERVAL = 5
"""Seconds for a token."""


async def told(shop, tasks) -> dict[str, datetime | None]:
    """Return by id when the limits of the tasks are said to let them start."""
    async with shop.engine.store.read() as connection:
        seen = await see(connection, [await shop.get(task.id) for task in tasks])
    return {one.task.id: None if one.blocked is None else one.blocked.limit_opens_at for one in seen}


async def work_off(shop, worker, clock, tasks) -> dict[str, datetime]:
    """Claim whatever may be claimed, second by second, and return when each task began."""
    begun: dict[str, datetime] = {}
    while len(begun) < len(tasks):
        clock.advance(1)
        await shop.engine.run(OpenLimits())
        while claimed := await shop.claim(worker, 50):
            for task in claimed:
                begun[task.id] = clock.now()
                await shop.run(task)
    return begun


async def test_a_start_is_told_within_a_factor_of_two_of_what_comes_and_never_sooner_than_the_rate_allows(
    shop, clock
) -> None:
    await set_limit(shop, rate=(1, INTERVAL), burst=3)
    other = await shop.register("other")
    worker = await shop.worker(shop.job, other, concurrency=50)
    counts = {
        ("a", shop.job, 0): 9, ("a", other, 0): 4, ("a", shop.job, 1): 2, ("b", shop.job, 0): 5, ("c", other, 0): 1,
    }  # fmt: skip
    tasks, key_of = [], {}
    for (key, job, priority), count in counts.items():
        found = await shop.submit(count, job=job, limits=named(key=key), options={"priority": priority})
        key_of |= {task.id: key for task in found}
        tasks += found
    first = await shop.claim(worker, 50)
    waiting = [task for task in tasks if task.id not in {one.id for one in first}]
    clock.advance(2)

    said, asked_at = await told(shop, waiting), clock.now()
    begun = await work_off(shop, worker, clock, waiting)

    # Three of `a`, three of `b`, the one of `c`.
    assert len(first) == 7
    for task_id, began in begun.items():
        eta, real = (said[task_id] - asked_at).total_seconds(), (began - asked_at).total_seconds()
        # Which of two queues has the next turn is not told: a token's time more or less.
        turn = INTERVAL if key_of[task_id] == "a" else 0
        assert real / 2 - turn - 1 <= eta <= 2 * real + turn, f"said {eta}, was {real}"
    of_b = sorted(at for task_id, at in said.items() if key_of[task_id] == "b")
    assert of_b == [asked_at + timedelta(seconds=INTERVAL * n - 2) for n in (1, 2)]
    of_a = sorted(at for task_id, at in said.items() if key_of[task_id] == "a")
    assert all(at >= asked_at + timedelta(seconds=INTERVAL * n - 2) for n, at in enumerate(of_a, 1))


async def test_nothing_is_told_where_it_is_not_the_rate_that_keeps_a_task(shop, clock, monkeypatch) -> None:
    await set_limit(shop, "both", concurrency=1, rate=(1, 10), burst=5)
    await set_limit(shop, "rate", rate=(1, 10))
    worker = await shop.worker(concurrency=50)
    full = await shop.submit(2, limits=named("both"))
    few = await shop.submit(4, limits=named("rate"))
    [plain] = await shop.submit()
    await shop.claim(worker, 50)

    now = clock.now()
    assert await told(shop, [full[1], plain, few[0]]) == {full[1].id: None, plain.id: None, few[0].id: None}
    assert await told(shop, few[1:]) == {task.id: now + timedelta(seconds=10 * n) for n, task in enumerate(few[1:], 1)}
    monkeypatch.setattr(limit_starts, "MOST_COUNTED", 2)
    assert await told(shop, few[1:]) == {
        few[1].id: now + timedelta(seconds=10), few[2].id: now + timedelta(seconds=20), few[3].id: None,
    }  # fmt: skip


async def test_of_two_rates_the_slower_one_says_when_a_task_starts(shop, clock) -> None:
    await set_limit(shop, "slow", rate=(1, 100))
    await set_limit(shop, "fast", rate=(1, 1))
    worker = await shop.worker(concurrency=50)
    both = await shop.submit(3, limits=[*named("slow"), *named("fast")])
    await shop.claim(worker, 50)

    said = await told(shop, both[1:])

    assert said == {task.id: clock.now() + timedelta(seconds=100 * n) for n, task in enumerate(both[1:], 1)}


async def test_what_is_read_for_it_goes_along_indexes_whatever_is_known_of_the_tables(fresh_database, shop) -> None:
    await set_limit(shop, rate=(1, 10))
    worker = await shop.worker(concurrency=50)
    tasks = await shop.submit(50, limits=named(key="a"))
    await shop.claim(worker)
    sent: list[tuple[str, object]] = []

    def note(_connection: object, _cursor: object, statement: str, values: object, *_rest: object) -> None:
        if "limit" in statement:
            sent.append((statement, values))

    waiting = [await shop.get(task.id) for task in tasks[1:3]]
    reader = shop.engine.store._reader.sync_engine
    async with shop.engine.store.read() as connection:
        event.listen(reader, "before_cursor_execute", note)
        found = await limit_waits(connection, waiting)
        event.remove(reader, "before_cursor_execute", note)
        explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
        plans = [(await connection.exec_driver_sql(explain + text, values)).all() for text, values in sent]

    assert (len(found), len(plans)) == (2, 3)
    for steps in plans:
        told = "\n".join(str(step[-1]) for step in steps)
        assert not re.search(r"(Seq Scan on|SCAN) (t|i|l|tasks|limit_\w+)\b", told), told
