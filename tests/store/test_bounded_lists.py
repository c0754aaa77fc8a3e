"""No list looks at more tasks than it may, whatever its filter and order: counted, not timed, without statistics.

On SQLite the work is the steps of its virtual machine, on PostgreSQL the rows that its scans bring.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from tests.store.loaded import START
from tests.store.test_million import SCANNED, _loaded
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle_server.store.read import few, walks
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.windows import ahead_of, anchor, window
from treadle_server.store.store import SqlStore

pytestmark = [pytest.mark.anyio]

TASKS = 20_000
LOOKED_THROUGH = 1_000

MOST = {"sqlite": 150 * LOOKED_THROUGH, "postgresql": 8 * LOOKED_THROUGH}
"""What a list may cost: some steps, or some rows, for each task that is looked through in each of what it asks.

The positions of 100 tasks in 100 queues take SQLite 90,000 steps."""

FILTERS: dict[str, dict[str, Any]] = {
    "text": {"text": "no such"},
    "error": {"error": "ValueError"},
    "not the error": {"not_error": ["ValueError"], "status": ["running", "completed"], "least_tries": 1},
    "tries": {"least_tries": 2},
    "duration": {"least_seconds": 300.0},
    "ended since": {"ended_from": START + timedelta(days=1)},
    "ended before": {"ended_until": START - timedelta(days=1)},
    "started": {"started_from": START},
    "created before": {"created_until": START - timedelta(days=1)},
    "created since": {"created_from": START + timedelta(days=1)},
    "worker": {"worker": "00000000-0000-7000-8000-00000000000a"},
    "target": {"target": "cam-1"},
    "not the room": {"not_room": ["@global"]},
    "not the tag": {"not_tag": ["kind=test"], "not_room": ["@global"]},
    "tag": {"tag": "kind=test"},
    "id": {"id": "00", "error": "ValueError"},
    "flow": {"flow": "00000000-0000-7000-8000-00000000000a"},
    "flows": {"flow": "00"},
    "failure": {"failure": "4b1f0c2a9d3e5f60"},
    "failed": {"status": ["failed", "cancelled", "paused"]},
    "open": {"status": ["failed", "scheduled", "blocked"], "text": "no such"},
    "of a job": {"job": "@global:tasks:job6", "least_tries": 2},
}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with 20,000 tasks, of which nothing is known."""
    with ExitStack() as stack:
        yield _loaded(request, stack, TASKS, request.param)


Question = Callable[[Any], Awaitable[int]]


def _listed(wanted: TaskFilter) -> Question:
    async def ask(connection: Any) -> int:
        return len((await read_tasks.page(connection, wanted, limit=100)).items)

    return ask


def _seen(wanted: TaskFilter, order: str) -> Question:
    async def ask(connection: Any) -> int:
        looked_at = Window(filter=wanted, order=order, limit=100)  # type: ignore[arg-type]
        return len(await window(connection, looked_at))

    return ask


def _counted(wanted: TaskFilter, order: str) -> Question:
    # A task that is far from the head in each order.
    last = "00000065-0000-7000-8000-000000000065" if order == "newest" else "00004e1b-0000-7000-8000-000000004e1b"

    async def ask(connection: Any) -> int:
        looked_at = Window(filter=wanted, order=order, first=last, limit=100)  # type: ignore[arg-type]
        at = await anchor(connection, looked_at)
        assert at is not None
        return (await ahead_of(connection, looked_at, at, [], 0))[0]

    return ask


async def _work_of(store: SqlStore, ask: Question) -> tuple[int, int]:
    """Return how much a question costs, and its answer."""
    async with store.read() as connection:
        if store.dialect == "postgresql":
            before = (await connection.execute(SCANNED)).scalar_one()
            found = await ask(connection)
            return int((await connection.execute(SCANNED)).scalar_one() - before), found
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 100
            return 0

        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        await driver.set_progress_handler(step, 100)
        found = await ask(connection)
        await driver.set_progress_handler(None, 100)
        return steps, found


async def test_no_list_looks_at_more_than_it_may(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "LOOKED_THROUGH", LOOKED_THROUGH)
    monkeypatch.setattr(few, "RARE", LOOKED_THROUGH)
    monkeypatch.setattr(few, "FEW", LOOKED_THROUGH)
    asked = {name: _listed(TaskFilter(**fields)) for name, fields in FILTERS.items()}
    for name in ("error", "of a job", "failed"):
        wanted = TaskFilter(**FILTERS[name])
        asked |= {f"{name}, {order}": _seen(wanted, order) for order in ("newest", "oldest", "updated", "position")}
        asked |= {f"before {name}, {order}": _counted(wanted, order) for order in ("newest", "position")}
    store = SqlStore(url)
    too_much: dict[str, int] = {}
    try:
        for what, ask in asked.items():
            work, found = await _work_of(store, ask)
            assert found == 0, what
            if work > MOST[store.dialect]:
                too_much[what] = work
    finally:
        await store.close()

    assert too_much == {}


@pytest.mark.parametrize(
    ("order", "last"),
    [("newest", [4, 3, 2, 1, 0]), ("oldest", [TASKS - n for n in range(5, 0, -1)]), ("position", [4, 3, 2, 1, 0])],
)
async def test_the_end_of_a_list_is_read_from_its_end(
    url: str, monkeypatch: pytest.MonkeyPatch, order: str, last: list[int]
) -> None:
    monkeypatch.setattr(walks, "LOOKED_THROUGH", LOOKED_THROUGH)
    found: list[int] = []

    async def ask(connection: Any) -> int:
        # The first hundred came in before all others, and are completed.
        looked_at = Window(order=order, offset=TASKS - 8, limit=200)  # type: ignore[arg-type]
        found[:] = [task.seq for task in await window(connection, looked_at)]
        return len(found)

    store = SqlStore(url)
    try:
        work, count = await _work_of(store, ask)
    finally:
        await store.close()

    assert (count, found[-5:]) == (8, last)
    assert work < MOST[store.dialect]


async def test_nor_does_one_that_finds_its_tasks_late(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "LOOKED_THROUGH", LOOKED_THROUGH)
    # What came in first, from which the newest are far away.
    monkeypatch.setattr(walks, "CLOCKS_APART", timedelta(0))
    store = SqlStore(url)
    try:
        work, found = await _work_of(store, _listed(TaskFilter(created_until=START + timedelta(seconds=1))))
    finally:
        await store.close()

    assert found == 100
    assert work < MOST[store.dialect]


async def test_what_no_index_has_in_order_is_sorted_by_what_the_order_needs_alone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "LOOKED_THROUGH", LOOKED_THROUGH)

    async def ask(connection: Any) -> int:
        return len(await window(connection, Window(order="updated", offset=LOOKED_THROUGH // 2, limit=50)))

    store = SqlStore(url)
    try:
        work, count = await _work_of(store, ask)
    finally:
        await store.close()

    # Sorted with all of their columns each is looked up once more, whichever is shown.
    assert count == 50
    assert work < {"sqlite": 40, "postgresql": 2.5}[store.dialect] * LOOKED_THROUGH
