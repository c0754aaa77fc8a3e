"""The hot statements go along their indexes: a plan that sorts or scans fails here before it is slow."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.engine.conftest import two_shops
from treadle.wire.filters import TaskFilter
from treadle_server.store import arrivals
from treadle_server.store.base import Tx
from treadle_server.store.read import few, filters
from treadle_server.store.read import steps as steps_of
from treadle_server.store.tables import tasks
from treadle_server.store.transaction import lock_order
from treadle_server.store.transaction.counts import fold_counts
from treadle_server.store.transaction.heads import BEHIND, HEADS_OF_LANE, heads_of_lanes
from treadle_server.store.transaction.load import _FINDERS, _tasks_by_id, _tasks_of_workers
from treadle_server.store.transaction.promotions import DUE_BY_SEQ, DUE_SEQS, due_statement
from treadle_server.store.transaction.targets import _claimable, _states
from treadle_server.store.transaction.webhooks import first_waiting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fresh_database")]

UUID = "00000000-0000-7000-8000-000000000000"


async def plan(tx: Tx, statement: sa.Executable, parameters: dict[str, object], *, may_sort: bool = False) -> str:
    """Return the plan, one step a line."""
    dialect = await tx.connection.run_sync(lambda connection: connection.dialect)
    compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    prefix = "EXPLAIN QUERY PLAN " if tx.dialect == "sqlite" else "EXPLAIN "
    if tx.dialect == "sqlite":
        values = compiled.construct_params(parameters)
        processed = {
            name: compiled._bind_processors[name](value) if name in compiled._bind_processors else value
            for name, value in values.items()
        }
        raw = await tx.connection.exec_driver_sql(
            prefix + str(compiled), tuple(processed[name] for name in compiled.positiontup)
        )
        return "\n".join(row[3] for row in raw)
    await tx.connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
    await tx.connection.exec_driver_sql(f"SET LOCAL enable_sort = {'on' if may_sort else 'off'}")
    await tx.connection.exec_driver_sql("SET LOCAL enable_bitmapscan = off")
    raw = await tx.connection.exec_driver_sql(
        prefix + str(compiled), tuple(compiled.construct_params(parameters)[name] for name in compiled.positiontup)
    )
    return "\n".join(row[0] for row in raw)


def _is_indexed(steps: str) -> bool:
    return (
        "SCAN tasks" not in steps.replace("SCAN tasks USING INDEX", "")
        and "Seq Scan on tasks" not in steps
        and "TEMP B-TREE" not in steps
    )


async def test_the_first_and_the_last_task_are_looked_up_without_reading_through_all_of_them(shop) -> None:
    """Retention asks for them each minute."""
    async with shop.engine.store.write() as tx:
        steps = await plan(tx, arrivals._ENDS, {})

    assert _is_indexed(steps), steps


@pytest.mark.parametrize("is_exclusive", [True, False], ids=["exclusive", "several"])
async def test_the_head_of_a_queue_is_read_along_its_index_and_never_sorted(shop, clock, is_exclusive) -> None:
    async with shop.engine.store.write() as tx:
        values = {"lane": 1, "lanes": [1], "most": 100, "now": clock.now(), "heaviest": 9}
        heads = HEADS_OF_LANE if tx.dialect == "sqlite" else heads_of_lanes(is_exclusive=is_exclusive)
        steps = await plan(tx, heads, values)

    assert "ix_tasks_queue" in steps
    assert _is_indexed(steps)
    assert "Sort" not in steps


async def test_a_queue_is_read_on_from_a_place_and_not_over_what_is_before_it(shop, clock) -> None:
    """What was taken is still in PostgreSQL's index until it is cleaned: each read went over all of it."""
    now = clock.now()
    place = {"lane": 1, "priority": 5, "due_at": now, "seq": 7}
    places = {"lanes": [1], "prioritys": [5], "due_ats": [now], "seqs": [7]}
    async with shop.engine.store.write() as tx:
        as_urgent, less_urgent = [
            await plan(
                tx,
                behind.statement if tx.dialect == "sqlite" else behind.postgres,
                place | places | {"most": 100, "now": now, "heaviest": 9},
            )
            for behind in BEHIND
        ]

    if tx.dialect == "sqlite":
        told = ("(lane=? AND blocked=? AND priority=? AND due_at>?)", "(lane=? AND blocked=? AND priority<?)")
    else:
        told = ("(priority = anon_1.priority) AND (ROW(due_at, seq) > ROW(", "(priority < anon_1.priority)")
    for steps, place_told in zip((as_urgent, less_urgent), told, strict=True):
        assert any(place_told in line and "Filter" not in line for line in steps.splitlines()), steps
        assert _is_indexed(steps)
        assert "Sort" not in steps


@pytest.mark.parametrize(
    ("finder", "index"),
    [
        ("expired", "ix_tasks_lease"),
        ("overdue", "ix_tasks_deadline"),
        ("unstarted", "ix_tasks_start_limit"),
        ("overlong", "ix_tasks_run_limit"),
    ],
)
async def test_what_time_brings_is_found_along_a_partial_index(shop, clock, finder, index) -> None:
    async with shop.engine.store.write() as tx:
        steps = await plan(tx, _FINDERS[finder], {"now": clock.now(), "most": 10, "stamped": clock.now()})

    assert index in steps
    assert _is_indexed(steps)


@pytest.mark.parametrize("is_exclusive", [False, True])
async def test_what_is_due_is_found_along_a_partial_index(shop, clock, is_exclusive) -> None:
    async with shop.engine.store.write() as tx:
        statement = due_statement(is_exclusive=is_exclusive)
        steps = await plan(tx, statement, {"now": clock.now(), "most": 10})

    assert "ix_tasks_due" in steps
    assert _is_indexed(steps)
    # Thousands may be due at the same moment: each portion would read and sort all of them.
    assert "Sort" not in steps


async def test_what_is_due_soon_is_found_along_a_partial_index_and_read_by_number(shop, clock) -> None:
    await shop.submit(500, due_at=clock.now() + timedelta(seconds=5))
    async with shop.engine.store.write() as tx:
        numbers = await plan(tx, DUE_SEQS.statement, {"until": clock.now(), "most": 10})
        whole = await plan(tx, DUE_BY_SEQ.statement, {"seqs": [1, 2]})

    assert "ix_tasks_due" in numbers
    assert _is_indexed(numbers)
    assert "Sort" not in numbers
    assert _is_indexed(whole)


async def test_tasks_are_found_by_id_worker_and_unique_key_along_an_index(shop) -> None:
    await shop.submit(500)
    async with shop.engine.store.write() as tx:
        if tx.dialect == "postgresql":
            # There the planner has statistics sooner or later; SQLite is never given any.
            await tx.connection.exec_driver_sql("ANALYZE")
        by_id = await plan(tx, _tasks_by_id.statement, {"ids": [UUID]})
        by_worker = await plan(tx, _tasks_of_workers.statement, {"ids": [UUID]}, may_sort=True)
        if tx.dialect == "sqlite":
            statement = f"EXPLAIN QUERY PLAN {lock_order._HOLDERS}".format(rows="(VALUES (?, ?), (?, ?))")
            by_key = "\n".join(row[3] for row in tx.connection.fetch(statement, (1, "k", 2, "l")))
        else:
            raw = await tx.connection.exec_driver_sql(f"EXPLAIN {lock_order._PG_HOLDERS}", ([1, 2], ["k", "l"]))
            by_key = "\n".join(row[0] for row in raw)

    assert "SCAN tasks" not in by_id
    assert "ix_tasks_worker" in by_worker or "ix_tasks_lease" in by_worker
    assert "uq_tasks_unique_key" in by_key


@pytest.mark.postgres
async def test_what_is_to_be_locked_is_looked_up_along_indexes(postgres_database) -> None:
    async with two_shops(postgres_database) as (shop, _), shop.engine.store.write() as tx:
        by_id = await plan(tx, lock_order._of_ids.statement, {"ids": [UUID]})
        by_worker = await plan(tx, lock_order._of_workers.statement, {"ids": [UUID]})
        held = await plan(tx, lock_order._held_by.statement, {"ids": [UUID]})
        locked = await plan(tx, lock_order._lock.statement, {"seqs": [1, 2]})

    assert all("Seq Scan" not in steps for steps in (by_id, by_worker, held, locked))
    assert "ix_tasks_worker" in by_worker or "ix_tasks_lease" in by_worker


async def test_a_targets_state_is_read_along_its_indexes_however_many_wait(shop) -> None:
    async with shop.engine.store.write() as tx:
        state = await plan(tx, _states.statement, {"nums": [1, 2]})
        claimable = _claimable.statement if tx.dialect == "sqlite" else _claimable.postgres
        unblocked = await plan(tx, claimable, {"nums": [1, 2]})

    assert "SCAN tasks" not in state
    assert "ix_tasks_target" in state
    assert "ix_tasks_target" in unblocked


@pytest.mark.postgres
async def test_deltas_are_folded_into_the_counts(postgres_database) -> None:
    from treadle_server.store.store import SqlStore
    from treadle_server.store.transaction.counts import apply_counts, queue_counts

    store = SqlStore(postgres_database)
    await store.open()
    async with store.write() as tx:
        await tx.connection.execute(sa.text(_JOB))
        await tx.connection.execute(sa.text("INSERT INTO lanes (id, job_num, room, pool) VALUES (1, 1, '', '')"))
        for n in (3, -1, 5):
            await apply_counts(tx, {(1, "pending", 0): n})
        assert await queue_counts(tx, {(1, "")}) == {(1, ""): {0: 7}}
        assert await fold_counts(tx) == 3
        assert await fold_counts(tx) == 0
        assert await queue_counts(tx, {(1, "")}) == {(1, ""): {0: 7}}
    await store.close()


_JOB = f"""
INSERT INTO jobs (num, id, room, category, name, schema, schema_version, defaults, created_at, retain, paused, version)
VALUES (1, '{UUID}', '@global', 'tasks', 'x', '{{}}', 1, '{{}}', now(), true, false, 1)
"""


@pytest.mark.parametrize("is_rare", [True, False], ids=["rare", "common"])
@pytest.mark.parametrize("has_statistics", [False, True], ids=["unknown", "analyzed"])
@pytest.mark.parametrize(
    "wanted",
    [{}, {"status": ["pending"]}, {"job": "@global:tasks:noop", "room": "@global"}],
    ids=["alone", "state", "job"],
)
async def test_a_tag_is_found_along_its_index_whatever_the_statistics_say(
    shop, monkeypatch, is_rare, has_statistics, wanted
) -> None:
    await shop.submit(200)
    await shop.submit(40, tags='{"region": {"name": "eu"}}')
    monkeypatch.setattr(few, "RARE", 100 if is_rare else 10)
    monkeypatch.setattr(few, "FEW", 10)
    async with shop.engine.store.write() as tx, shop.engine.store.read() as reading:
        if has_statistics:
            await tx.connection.exec_driver_sql("ANALYZE")
        # They are older than the tasks that have the tag now, as statistics are.
        where = await filters.conditions(reading, TaskFilter(tag="region.name=eu", **wanted))
        statement = sa.select(tasks).where(*where).order_by(tasks.c.seq.desc()).limit(51)
        steps = await plan(tx, statement, {}, may_sort=True)
        found = len((await tx.connection.execute(statement)).all())

    assert found == 40
    assert where.is_narrow is is_rare
    assert "pk_task_tags" in steps or "task_tags USING PRIMARY KEY (key=?" in steps
    if is_rare:
        assert _is_indexed(steps)
        assert "pk_tasks" in steps or "tasks USING INTEGER PRIMARY KEY (rowid=?)" in steps
        assert "ix_tasks" not in steps
    else:
        # In the list's own order, each task looked up by both columns.
        assert "TEMP B-TREE" not in steps
        assert "(key=? AND task_seq=?)" in steps or "(task_seq = tasks.seq)" in steps


async def test_the_steps_of_many_claims_are_read_task_by_task(shop) -> None:
    values = {"seqs": [1, 2], "most_each": 100, "most_in_all": 1000}
    async with shop.engine.store.write() as tx:
        steps = await plan(tx, steps_of.OF_MANY.statement, values, may_sort=True)

    # Their sizes and themselves, along either of the two indexes that begin with the task.
    assert max(steps.count("task_steps USING INDEX"), steps.count("on task_steps")) == 2, steps
    assert max(steps.count("(task_seq=?)"), steps.count("Index Cond: (task_seq = ANY")) == 2, steps


async def test_webhooks_that_owe_nothing_are_not_looked_at_for_each_attempt_that_ends(shop) -> None:
    """10,000 of them took the loop 0.06 s each time."""
    async with shop.engine.store.write() as tx:
        steps = await plan(tx, first_waiting(None), {})

    assert "SCAN webhooks" not in steps
    assert "SCAN webhook_deliveries" not in steps.replace("SCAN webhook_deliveries USING COVERING INDEX", "")
    assert "Seq Scan" not in steps
    if shop.engine.store.dialect == "postgresql":
        assert "Index Cond: (id = owing.id)" in steps
