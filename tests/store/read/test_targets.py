"""Reads of targets go along their indexes, and cost as many statements for a page as for one."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Executable, event, insert, text

from tests.store.read.conftest import START, WORKER, StoredTasks, task_row
from treadle_server.store.bound_lists import NUMBER, BoundList
from treadle_server.store.read import targets as read_targets
from treadle_server.store.read.targets import HOLDERS, LINE
from treadle_server.store.tables import holds, runs, targets

PER_TARGET = 10


async def put_targets(stored: StoredTasks, names: list[str], room: str = "lab") -> None:
    async with stored.store.write() as tx:
        rows = [{"num": num, "room": room, "name": name} for num, name in enumerate(names, 1)]
        await tx.connection.execute(insert(targets), rows)


def row_of(seq: int, num: int, **given: Any) -> dict[str, Any]:
    # Many rows are inserted at once with the columns of the first.
    return task_row(seq, target_num=num, target=f"t{num}", **{"started_at": None, **given})


async def plan_of(connection: Any, statement: Executable, nums: list[int]) -> str:
    dialect = connection.dialect
    explain = "EXPLAIN QUERY PLAN " if dialect.name == "sqlite" else "EXPLAIN "
    compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    values = compiled.construct_params({"nums": BoundList(NUMBER).process_bind_param(nums, dialect)})
    rows = await connection.exec_driver_sql(
        explain + str(compiled), tuple(values[name] for name in compiled.positiontup)
    )
    return "\n".join(str(row[-1]) for row in rows)


async def put_many(stored: StoredTasks, count: int) -> None:
    """Put in so many tasks, ten to a target: of every target one is claimed, and the others wait."""
    await put_targets(stored, [f"t{num}" for num in range(1, count // PER_TARGET + 1)])
    statuses = ["claimed"] + ["pending"] * (PER_TARGET - 1)
    await stored.put(
        [row_of(seq, seq // PER_TARGET + 1, status=statuses[seq % PER_TARGET], blocked=True) for seq in range(count)]
    )
    if stored.store.dialect == "postgresql":
        async with stored.store.write() as tx:
            # As the autovacuum does sooner or later; SQLite is never given statistics.
            await tx.connection.exec_driver_sql("ANALYZE")


@pytest.mark.soak
async def test_with_100_000_tasks_holders_and_lines_are_read_along_the_targets_indexes_l7(stored: StoredTasks):
    await put_many(stored, 100_000)

    async with stored.store.read() as connection:
        held = await plan_of(connection, HOLDERS, [1, 2, 3])
        line = await plan_of(connection, LINE, [1, 2, 3])

    assert "ix_tasks_target_held" in held or "uq_tasks_live_target" in held
    assert "ix_tasks_target_queue" in line
    for steps in (held, line):
        assert "Seq Scan on tasks" not in steps
        assert not [step for step in steps.splitlines() if step.strip().startswith("SCAN tasks")]


async def test_a_page_of_targets_costs_as_many_statements_as_one_l7(stored: StoredTasks):
    await put_many(stored, 5000)
    statements: list[str] = []

    def count(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("SELECT"):
            statements.append(statement)

    engine = stored.store._reader.sync_engine
    event.listen(engine, "before_cursor_execute", count)
    try:
        async with stored.store.read() as connection:
            for limit in (1, 50, 500):
                statements.clear()
                found, total = await read_targets.page(connection, room="lab", held=True, limit=limit)
                assert (len(found), total, len(statements)) == (limit, 5000 // PER_TARGET, 4)
    finally:
        event.remove(engine, "before_cursor_execute", count)

    assert {(view.waiting, len(view.holders)) for view in found} == {(PER_TARGET - 1, 1)}
    assert found[0].name == f"t{5000 // PER_TARGET}"


async def test_what_holds_a_target_is_told_by_the_state_of_its_tasks_l7(stored: StoredTasks):
    """Each state in a target of its own: what holds, with its times, and what does not."""
    at = {seconds: START + timedelta(seconds=seconds) for seconds in (1, 2, 3, 60)}
    ran = {"run_id": 0, "worker_id": WORKER}
    holding = {
        "claimed": {"status": "claimed", "claimed_at": at[1], "taken_until": at[60]},
        "running": {"status": "running", "claimed_at": at[1], "started_at": at[2], "taken_until": at[60]},
        "paused": {"status": "paused", "updated_at": at[3]},
        "failed": {"status": "failed", "completed_at": at[3], **ran},
        "retry": {"status": "scheduled", "due_at": at[60], "updated_at": at[2], **ran},
    }
    free = {
        "never ran": {"status": "scheduled"},
        "let go": {"status": "failed", "on_failure": "release", **ran},
        "settled": {"status": "failed", "settled": True, **ran},
        "done": {"status": "completed", **ran},
        "cancelled": {"status": "cancelled", **ran},
        "waiting": {"status": "pending"},
    }
    cases = {**holding, **free}
    await put_targets(stored, list(cases))
    await stored.put([row_of(num, num, **case) for num, case in enumerate(cases.values(), 1)])

    async with stored.store.read() as connection:
        found, _ = await read_targets.page(connection, room="lab", limit=100)

    times = {view.name: [(h.cause, h.since, h.until) for h in view.holders] for view in found}
    assert times == {
        "claimed": [("claimed", at[1], at[60])],
        "running": [("running", at[2], at[60])],
        "paused": [("paused", at[3], None)],
        "failed": [("failed", at[3], None)],
        "retry": [("retry", at[2], at[60])],
        **{name: [] for name in free},
    }


async def test_only_targets_in_use_are_shown_to_observers(stored: StoredTasks):
    await put_targets(stored, ["done", "waiting", "paused", "stopping"])
    await stored.put([
        row_of(1, 1, status="completed", run_id=0), row_of(2, 2), row_of(3, 3, status="paused"),
        row_of(4, 4, status="cancelled", run_id=0),
    ])  # fmt: skip
    async with stored.store.write() as tx:
        await tx.connection.execute(
            insert(runs),
            {"task_seq": 4, "run_id": 0, "status": "cancelled", "claimed_at": START, "ended_at": START},
        )
        await tx.connection.execute(
            insert(holds),
            {"task_seq": 4, "run_id": 0, "worker_id": WORKER, "target_num": 4, "weight": 1, "until": START},
        )

    async with stored.store.read() as connection:
        found, total = await read_targets.page(connection, in_use=True, room=None, limit=10)
        first, all_of_them = await read_targets.page(connection, in_use=True, room="lab", limit=1)
        other, none = await read_targets.page(connection, in_use=True, room="den", limit=10)
        assert (await connection.execute(text("SELECT count(*) FROM targets"))).scalar() == 4

    assert ([view.name for view in found], total) == (["stopping", "paused", "waiting"], 3)
    assert ([view.name for view in first], all_of_them) == (["stopping"], 3)
    assert (other, none) == ([], 0)
