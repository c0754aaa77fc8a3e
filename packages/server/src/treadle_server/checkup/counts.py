"""Whether the kept counts of tasks are right, and each task has the row that says what it is to do."""

from collections import Counter

from sqlalchemy import Connection, case, exists, func, inspect, select

from treadle.wire import amounts
from treadle.wire.findings import Finding
from treadle_server.store.read.counts import counted
from treadle_server.store.tables import lane_counts, task_specs, tasks

MOST = 3
"""The most differences that are listed."""

# Which is no foreign key: `task_specs` refers to `tasks`, and on PostgreSQL not even that.
_WITHOUT_SPECS = select(func.count()).where(~exists().where(task_specs.c.seq == tasks.c.seq)).select_from(tasks)


def look(connection: Connection) -> list[Finding]:
    """Count all tasks and compare that with the kept counts, in one snapshot."""
    tables = inspect(connection).get_table_names()
    if tasks.name not in tables or lane_counts.name not in tables:
        return [Finding("counts", "ok", "there are no counts yet")]
    if task_specs.name in tables and (lost := connection.execute(_WITHOUT_SPECS).scalar_one()):
        return [Finding("counts", "fail", f"{amounts.counted(lost, 'task')} without a row in task_specs: no list shows"
                        " them, and they never run", "stop the servers and restore a backup")]  # fmt: skip
    # Only the counts of pending tasks are kept by priority.
    priority = case((tasks.c.status == "pending", tasks.c.priority), else_=0)
    key = (tasks.c.lane, tasks.c.status, priority)
    there = Counter({tuple(of): n for *of, n in connection.execute(select(*key, func.count()).group_by(*key))})
    kept = Counter({tuple(of): int(n) for *of, n in connection.execute(select(counted(connection.dialect.name)))})
    wrong = sorted(of for of in there.keys() | kept.keys() if there[of] != kept[of])
    total = sum(there.values())
    if wrong:
        told = amounts.first_of([f"lane {of[0]} {of[1]}: {kept[of]}, not {there[of]}" for of in wrong], MOST)
        return [Finding("counts", "fail", f"the kept counts are wrong ({told}): queues, positions and metrics"
                        " mislead", "stop the servers and recount, as docs/operations.md says; please report"
                        " this unless somebody changed the database by hand")]  # fmt: skip
    return [Finding("counts", "ok", f"the kept counts are right: {amounts.counted(total, 'task')}")]
