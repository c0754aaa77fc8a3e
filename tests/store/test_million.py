"""What is asked for all the time costs no more with a million tasks than with ten thousand: counted, not timed.

On SQLite the work is the steps of its virtual machine, on PostgreSQL the rows that its scans bring. No statistics are
gathered: a burst of tasks must not wait for them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from shutil import copyfile
from typing import Any

import pytest
from sqlalchemy import text

from tests.conftest import _database_of, _postgres_database
from tests.store.loaded import JOBS, load_postgres, load_sqlite, now_of, seq_of
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.ids import WorkerId
from treadle.wire.status import Status
from treadle_server.engine.dispatch.dispatcher import Dispatcher
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.store.base import Tx
from treadle_server.store.read import counts
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.positions import position
from treadle_server.store.read.windows import window
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task

pytestmark = [pytest.mark.anyio, pytest.mark.soak, pytest.mark.timeout(600)]

FEW, MANY = 10_000, 1_000_000
WORKER = WorkerId("00000000-0000-7000-8000-00000000000a")

SCANNED = text("SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables")
"""The rows that this transaction's scans have brought so far."""


class _Enough(Exception):
    """Ends a transaction that is not to be kept."""


# What is asked, of a transaction or of a connection that reads, and of a database with so many tasks.
Question = Callable[[Any, int], Awaitable[Any]]


async def a_claim_among_all_lanes(tx: Tx, size: int) -> list[int]:
    dispatcher = Dispatcher()
    dispatcher.open_slot(
        WorkerSlot(WORKER, frozenset(range(1, JOBS + 1)), None, 100, 0, 0, deliver=lambda _tasks: None)
    )
    assignments = await dispatcher.assign(tx, now_of(size))
    return sorted(change.task.seq for change in assignments.changes)


async def the_counts_of_every_queue(connection: Any, _: int) -> dict[int, dict[str, int]]:
    return await counts.by_job(connection)


def the_position_of(place: int) -> Question:
    async def ask(connection: Any, _: int) -> int | None:
        [row] = await connection.execute(select_tasks().where(tasks.c.seq == seq_of(7, place)))
        return await position(connection, to_task(row))

    return ask


async def the_head_of_a_queue(connection: Any, _: int) -> list[int | None]:
    wanted = Window(order="position", limit=50, filter=TaskFilter(job="@global:tasks:job6"))
    return [seen.position for seen in await read_tasks.see(connection, await window(connection, wanted))]


async def the_newest_page(connection: Any, _: int) -> list[int]:
    done = TaskFilter(status=[Status.COMPLETED])
    return [seen.task.seq for seen in (await read_tasks.page(connection, done, limit=100)).items]


@dataclass(frozen=True)
class Case:
    """A question, and what is the right answer when there are so many tasks."""

    ask: Question
    right: Callable[[int], Any]
    writes: bool = False


CASES = {
    "claim": Case(a_claim_among_all_lanes, lambda _: [seq_of(lane, 1) for lane in range(1, JOBS + 1)], writes=True),
    "counts": Case(
        the_counts_of_every_queue,
        lambda size: {
            job: {"pending": size // JOBS // 2, "completed": size // JOBS // 2} for job in range(1, JOBS + 1)
        },
    ),
    "position": Case(the_position_of(50), lambda _: 50),
    "head": Case(the_head_of_a_queue, lambda _: list(range(1, 51))),
    "newest": Case(the_newest_page, lambda size: list(range(size - JOBS - 1, size - 2 * JOBS - 1, -1))),
}


async def work_of(store: SqlStore, case: Case, size: int) -> tuple[int, Any]:
    """Return how much the question costs, and its answer; asked once before, so that nothing is prepared for it."""
    counted = _steps if store.dialect == "sqlite" else _rows
    await counted(store, case, size)
    return await counted(store, case, size)


async def _steps(store: SqlStore, case: Case, size: int) -> tuple[int, Any]:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    async def asked(source: Any) -> Any:
        if case.writes:
            driver = source.connection.driver
            driver.set_progress_handler(step, 1)
            found = await case.ask(source, size)
            driver.set_progress_handler(None, 1)
        else:
            driver = (await source.get_raw_connection()).driver_connection
            await driver.set_progress_handler(step, 1)
            found = await case.ask(source, size)
            await driver.set_progress_handler(None, 1)
        return found

    found = await _within(store, case, asked)
    return steps, found


async def _rows(store: SqlStore, case: Case, size: int) -> tuple[int, Any]:
    async def asked(source: Any) -> tuple[int, Any]:
        connection = source.connection if case.writes else source
        before = (await connection.execute(SCANNED)).scalar_one()
        found = await case.ask(source, size)
        return int((await connection.execute(SCANNED)).scalar_one() - before), found

    counted: tuple[int, Any] = await _within(store, case, asked)
    return counted


async def _within(store: SqlStore, case: Case, asked: Callable[[Any], Awaitable[Any]]) -> Any:
    """Ask in a transaction that is taken back, or on a connection that reads."""
    if not case.writes:
        async with store.read() as connection:
            return await asked(connection)
    found = None
    with pytest.raises(_Enough):
        async with store.write() as tx:
            found = await asked(tx)
            raise _Enough
    return found


def _loaded(request: pytest.FixtureRequest, stack: ExitStack, size: int, kind: str) -> str:
    if kind == "sqlite":
        path = request.getfixturevalue("tmp_path_factory").mktemp("loaded") / f"{size}.db"
        copyfile(request.getfixturevalue("sqlite_template"), path)
        load_sqlite(path, size)
        stack.callback(path.unlink)
        return f"sqlite:///{path}"
    server, template = request.getfixturevalue("postgres_url"), request.getfixturevalue("postgres_template")
    url = _database_of(server, stack.enter_context(_postgres_database(server, template)))
    asyncio.run(load_postgres(url, size))
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def databases(request: pytest.FixtureRequest) -> Any:
    """A database with few tasks, and one with many: their URLs by their sizes."""
    with ExitStack() as stack:
        yield {size: _loaded(request, stack, size, request.param) for size in (FEW, MANY)}


async def test_what_is_asked_all_the_time_costs_the_same_however_many_tasks_there_are(
    databases: dict[int, str],
) -> None:
    works: dict[str, list[int]] = {name: [] for name in CASES}
    for size, url in databases.items():
        store = SqlStore(url)
        try:
            for name, case in CASES.items():
                work, found = await work_of(store, case, size)
                assert found == case.right(size), name
                works[name].append(work)
        finally:
            await store.close()

    assert all(few > 0 for few, _ in works.values()), works
    assert {name: (few, many) for name, (few, many) in works.items() if many > 1.2 * few + 20} == {}
