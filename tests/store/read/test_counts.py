"""Counts, heads and windows of a job with very many lanes: read in one pass, whatever PostgreSQL's planner assumes."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from sqlalchemy import event

from tests.store.read.conftest import START, StoredTasks, task_row
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.status import Status
from treadle_server.store.read import counts, jobs
from treadle_server.store.read.depths import depth
from treadle_server.store.read.windows import ahead_of, anchor, window

pytestmark = pytest.mark.anyio

LANES = 2_000
POOLS = {lane: f"pool {lane}" for lane in range(10, 10 + LANES)}

Question = Callable[[Any], Awaitable[Any]]


@pytest.fixture
async def pooled(stored: StoredTasks) -> StoredTasks:
    """A job with a task in each of very many pools."""
    await stored.add_lanes({lane: (1, "", pool) for lane, pool in POOLS.items()})
    await stored.put([task_row(seq, lane=lane, pool=pool) for seq, (lane, pool) in enumerate(POOLS.items(), 1)])
    return stored


async def asked_by(stored: StoredTasks, ask: Question) -> tuple[list[tuple[str, Any]], Any]:
    """Return the statements that an answer takes, each with its parameters, and the answer."""
    told: list[tuple[str, Any]] = []
    async with stored.store.read() as connection:
        event.listen(connection.sync_connection, "before_cursor_execute", lambda *args: told.append(args[2:4]))
        return told, await ask(connection)


async def rows_of(stored: StoredTasks, told: list[tuple[str, Any]]) -> int:
    """Return how many rows the steps of PostgreSQL's plans pass on or throw away."""
    async with stored.store.read() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        plans = [await driver.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *given) for sql, given in told]
    return sum(_passed(orjson.loads(plan)[0]["Plan"]) for plan in plans)


def _passed(step: dict[str, Any]) -> int:
    rows = sum(n for name, n in step.items() if name == "Actual Rows" or name.startswith("Rows Removed by"))
    return int(rows * step["Actual Loops"]) + sum(map(_passed, step.get("Plans", ())))


JOB = TaskFilter(job="lab:tasks:add")


async def _queue(connection: Any) -> Any:
    job = await jobs.by_name(connection, "lab:tasks:add", room="lab")
    [view] = await jobs.view(connection, [job])
    return view.counts, view.oldest_pending_at


async def _head(connection: Any) -> list[int]:
    return [task.seq for task in await window(connection, Window(filter=JOB, order="position", limit=3))]


async def _before(connection: Any) -> tuple[int, bool]:
    [middle] = await window(connection, Window(filter=JOB, order="position", limit=1, offset=LANES // 2))
    wanted = Window(filter=JOB, order="position", first=middle.id)
    return await ahead_of(connection, wanted, await anchor(connection, wanted), [middle], LANES)


async def _place(connection: Any) -> Any:
    return await depth(connection, 1, LANES // 2, backward=False)


QUESTIONS: dict[str, tuple[Question, Any]] = {
    "a queue": (_queue, ({"pending": LANES}, START)),
    "what waits by lane": (
        lambda connection: counts.by_lane(connection, [Status.PENDING], 1),
        [(lane, 1, "pending", 1) for lane in POOLS],
    ),
    "what waits by priority": (lambda connection: counts.in_line(connection, 1), {0: dict.fromkeys(POOLS, 1)}),
    "the head of the line": (_head, [1, 2, 3]),
    "how many are before a task": (_before, (LANES // 2, False)),
    "a place deep in the line": (_place, ((0, START, LANES // 2), LANES // 2)),
}


@pytest.mark.parametrize("what", QUESTIONS)
async def test_a_job_with_many_lanes_is_read_in_short_statements_that_pass_each_lane_a_few_times(
    pooled: StoredTasks, what: str
) -> None:
    ask, expected = QUESTIONS[what]

    told, answer = await asked_by(pooled, ask)

    assert (sorted(answer) if isinstance(answer, list) else answer) == expected
    assert sum(len(sql) for sql, _ in told) < 30_000
    if pooled.store.dialect == "postgresql":
        assert await rows_of(pooled, told) < 100 * LANES
