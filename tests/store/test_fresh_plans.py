"""PostgreSQL: no plan on a task's way depends on statistics, nor on how many tasks there are when it is made.

What the writer sends is recorded while tasks go every way that needs no hand, of one server alone and of one among
several. Then each statement is planned in a database that nobody analyzed, as it fills: from what it is given it must
go along an index to its rows.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.conftest import FakeClock, _database_of, _postgres_database
from tests.engine.conftest import ADMIN, Shop
from tests.store.loaded import fill_postgres, open_postgres
from tests.store.recorded import Recorded, recording
from treadle.wire.ids import WorkerId
from treadle_server.domain.dependencies import Need
from treadle_server.domain.tasks import Task
from treadle_server.engine import due_ahead
from treadle_server.engine.commands import (
    Beat,
    ExpireLeases,
    FindWorker,
    LookAhead,
    MissDeadlines,
    PromoteDue,
    Receive,
    ReleaseHolds,
    ReportMany,
    ReportRun,
    RunReport,
    SendMessage,
    StepReport,
    SweepWorkers,
    TellWaiters,
)
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.engine import Engine
from treadle_server.store.postgres import writer
from treadle_server.store.store import SqlStore

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

SIZES = (0, 100, 10_000, 100_000)

BIG = {"tasks", "runs", "holds", "task_tags", "failures", "task_dependencies", "task_steps", "task_messages"}
"""The tables that grow with the tasks."""

READ_WHOLE = "ix_tasks_to_tell"
"""The index of those that others are to be told of, and of no other task: it is read from its beginning."""

BELIEFS = {"nothing": (-1, 0), "that it is empty": (0, 0), "that it is small": (10, 1)}
"""What PostgreSQL believes of a table, in rows and pages: of one never analyzed, and of one analyzed too early."""

SMALL = 100
"""Up to so many tasks all plans are alike for a planner that believes the table to be empty, and as fast."""

_BELIEVE = """
UPDATE pg_class SET reltuples = $1, relpages = $2 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""

_LEADING = "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid, 1, false) FROM pg_index"
"""What each index begins with: a column, or an expression."""


_BESIDE = (
    ("runs", "task_seq, run_id, status, claimed_at, ended_at", "n, 0, 'completed', now(), now()"),
    ("holds", "task_seq, run_id, worker_id, target_num, weight, until", "n, 0, gen_random_uuid(), NULL, 1, now()"),
    ("task_tags", "key, task_seq", "n, n"),
    ("task_dependencies", "task_seq, needs_seq", "n, n"),
    ("task_steps", "task_seq, number, name, occurrence, kind, run_id, at", "n, 0, 'charge', 0, 'call', 0, now()"),
    ("task_messages", "task_seq, number, name, id, sender, sent_at", "n, 0, 'approved', n, 'ann', now()"),
)


@pytest.fixture
def filling_url(postgres_url: str, postgres_template: str) -> Iterator[str]:
    """A database of its own, which will be large."""
    with _postgres_database(postgres_url, postgres_template) as name:
        yield _database_of(postgres_url, name)


async def test_every_statement_of_a_task_goes_along_an_index_whatever_is_known_of_the_tables(
    postgres_database: str, filling_url: str, clock: FakeClock
) -> None:
    statements = await the_ways_of_tasks(postgres_database, clock)
    connection = await asyncpg.connect(filling_url)
    await open_postgres(connection, each=0)
    leading = dict(await connection.fetch(_LEADING))
    failures = []
    for first, size in zip((0, *SIZES), SIZES, strict=False):
        await fill_postgres(connection, first, size)
        for table, columns, values in _BESIDE:
            line = f"generate_series({first}, {size - 1}, 10) AS line (n)"
            await connection.execute(f"INSERT INTO {table} ({columns}) SELECT {values} FROM {line}")
        for believed, numbers in BELIEFS.items():
            if size <= SMALL and believed != "nothing":
                continue
            await connection.execute(_BELIEVE, *numbers)
            for statement, values in statements.items():
                plan = await plan_of(connection, statement, values)
                failures += [
                    f"{size:,} tasks, known is {believed}: {step}\n{statement}" for step in blind_steps(plan, leading)
                ]
    await connection.close()

    assert len(statements) > 40
    for behind in ("tasks.priority = ", "tasks.priority < "):
        assert any(behind in statement for statement in statements), "queues were read on behind their heads"
    assert any(statement.startswith("SELECT tasks.seq \n") for statement in statements), "what is due soon was read"
    assert not failures, "\n\n".join(failures)


async def plan_of(connection: Any, statement: str, values: tuple[Any, ...]) -> Any:
    """Return the plan that the writer's transactions get, which is the same for all values."""
    await connection.execute(f"{writer.BEGIN_POOLED} PREPARE planned AS {statement}")
    nothing = f"({', '.join(['NULL'] * len(values))})" if values else ""
    plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned {nothing}")
    await connection.execute("DEALLOCATE planned; ROLLBACK")
    return json.loads(plan)[0]["Plan"]


def blind_steps(step: dict[str, Any], leading: dict[str, str]) -> Iterator[str]:
    """Return the steps that read a table which grows, and are not told where to look by an index's first column.

    And those that sort what is limited: they read all of it.
    """
    kind, index = step["Node Type"], step.get("Index Name")
    if kind == "Limit" and any(below["Node Type"] == "Sort" for below in _all_below(step)):
        yield "a sort below a limit"
    if index is not None:
        told = f" {_flat(leading[index])} " in f" {_flat(step.get('Index Cond', ''))} "
        if not told and index != READ_WHOLE and _table_of(index) in BIG:
            yield f"{kind} along {index} {step.get('Filter', '')}"
    elif kind == "Seq Scan" and step["Relation Name"] in BIG:
        yield f"{kind} of {step['Relation Name']}"
    for below in step.get("Plans", ()):
        yield from blind_steps(below, leading)


def _all_below(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for below in step.get("Plans", ()):
        yield below
        yield from _all_below(below)


def _flat(sql: str) -> str:
    return re.sub(r"[()]", "", sql)


def _table_of(index: str) -> str:
    return next((table for table in sorted(BIG, key=len, reverse=True) if f"_{table}" in index), "")


async def the_ways_of_tasks(url: str, clock: FakeClock) -> Recorded:
    """Return what the writer sent while tasks went every way that needs no hand."""
    found: Recorded = {}
    for name in ("alone", "one-of-several"):
        store = SqlStore(url)
        await store.open()
        if name == "alone":
            await store.seek_exclusive()
        with recording(store) as sent:
            async with Engine(store, clock=clock).running() as engine:
                shop = Shop(engine, job=f"@global:tasks:{name}")
                await shop.register(name)
                await _work(shop, clock)
        await store.close()
        found |= sent
    return found


async def _work(shop: Shop, clock: FakeClock) -> None:
    engine, now = shop.engine, clock.now()
    worker = await shop.worker(name="w", concurrency=50)
    await shop.submit(9, tags='{"k":"v"}', options={"max_retries": 3})
    for target in ("one", "two"):
        await shop.submit(3, target=target)
    await shop.submit(unique_key="k", deadline=now + timedelta(seconds=30))
    await shop.submit(due_at=now + timedelta(seconds=5))
    await _by_socket(shop, worker, [["started", "completed"], ["completed"]])
    await _in_a_long_queue(shop)
    await _in_steps(shop, worker)
    await _one_after_two(shop)
    first, second = await shop.claim(worker, most=2)
    await engine.run(Beat(principal=ADMIN, worker_id=worker))
    await shop.run(first)
    await shop.run(second, "failed", error="why")
    clock.advance(20)
    await engine.run(PromoteDue())
    assert await shop.claim(worker, most=2)
    await shop.submit(due_ahead.LEAST, due_at=clock.now() + timedelta(seconds=5))
    await engine.run(LookAhead(clock.now() + timedelta(seconds=5)))
    clock.advance(1000)
    for sweep in (MissDeadlines(), ExpireLeases(), ReleaseHolds(), SweepWorkers(60.0)):
        await engine.run(sweep)


async def _in_a_long_queue(shop: Shop) -> None:
    """Work off a queue that its server, if it alone writes, reads on before a claim has to wait for it."""
    await shop.register("long")
    worker = await shop.worker("@global:tasks:long")
    await shop.submit(20, job="@global:tasks:long")
    await _by_socket(shop, worker, [["completed"]] * 9)


async def _in_steps(shop: Shop, worker: WorkerId) -> None:
    """Let a task keep a step, receive, wait for a message that then comes, and run again: once wholly, once in part."""
    [task] = await shop.claim(worker)
    keep, wait = StepReport(name="charge"), StepReport(name="approved", occurrence=1, seconds=60.0, receives=True)
    await shop.report(task, "started")
    await shop.report(task, "step", step=keep, result="1")
    await _send(shop, task, "early")
    received = RunReport(kind="receive", step=StepReport(name="approved", receives=True))
    said = {"principal": ADMIN, "worker_id": worker, "task_id": task.id, "run_id": task.run_id}
    assert await shop.engine.run(Receive(ReportRun(**said, report=received))) is not None
    await shop.report(task, "suspended", step=wait)
    await _send(shop, task, "late")
    for from_step in ("approved", None):
        await shop.steer(task, "cancel")
        await shop.steer(task, "rerun", from_step=from_step)


async def _one_after_two(shop: Shop) -> None:
    """Let a task wait for two others, of which one ends after the other."""
    await shop.register("needed")
    needed = await shop.submit(2, job=(job := "@global:tasks:needed"))
    [waits] = await shop.submit(job=job, needs=[Need(task.id, [(f"d{i}", None)]) for i, task in enumerate(needed)])
    worker = await shop.worker(job)
    for task in await shop.claim(worker, most=2):
        await shop.run(task)
        await shop.engine.run(TellWaiters())
    assert [task.id for task in await shop.claim(worker)] == [waits.id]


async def _send(shop: Shop, task: Task, key: str) -> None:
    await shop.engine.run(SendMessage(principal=ADMIN, task_id=task.id, name="approved", id=key, data="true"))


async def _by_socket(shop: Shop, worker: WorkerId, said: Sequence[Sequence[str]]) -> None:
    """Work off some tasks as a worker on the socket does: of each lot it reports what is `said`."""
    given: asyncio.Queue[list[Task]] = asyncio.Queue()
    found = await shop.engine.run(FindWorker(principal=ADMIN, worker_id=worker))
    slot = WorkerSlot(worker, frozenset(found.jobs), None, 2, 0, 0, deliver=given.put_nowait)
    shop.engine.open_slot(slot)
    for kinds in said:
        async with asyncio.timeout(60):
            tasks = await given.get()
        for kind in kinds:
            reports = [(task.id, task.run_id, RunReport(kind=kind, starts=True)) for task in tasks]
            await shop.engine.run(ReportMany(principal=ADMIN, worker_id=worker, reports=reports))
    shop.engine.close_slot(slot)


async def test_a_plan_that_was_made_for_an_empty_table_is_not_kept(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = 0.0
    monkeypatch.setattr(writer, "monotonic", lambda: at)
    store = SqlStore(postgres_database)
    await store.open()

    async def plan(*first: str) -> str:
        async with store.write() as tx:
            for statement in first:
                await tx.connection.exec_driver_sql(statement)
            return str((await tx.connection.exec_driver_sql("EXPLAIN EXECUTE looking (1)")).scalars().all())

    # What the planner is told meanwhile changes nothing of a plan that is kept.
    told = [f"SET LOCAL enable_{way} = off" for way in ("indexscan", "indexonlyscan")]
    made = await plan("PREPARE looking (bigint) AS SELECT room FROM tasks WHERE seq = $1")
    at += writer.PLANS_LAST / 2
    kept = await plan(*told)
    at += writer.PLANS_LAST / 2
    anew = await plan(*told)
    await store.close()

    assert re.search("Index (Only )?Scan", made), "which of its indexes is a matter of what the planner knows"
    assert kept == made
    assert anew != made
