"""Whether the kept counts of tasks are right."""

from collections import Counter

from sqlalchemy import Connection, case, func, inspect, select

from treadle.wire import amounts
from treadle.wire.findings import Finding
from treadle_server.store.read.counts import counted
from treadle_server.store.tables import lane_counts, tasks

MOST = 3
"""The most differences that are listed."""


def look(connection: Connection) -> list[Finding]:
    """Count all tasks and compare that with the kept counts, in one snapshot."""
    tables = inspect(connection).get_table_names()
    if tasks.name not in tables or lane_counts.name not in tables:
        return [Finding("counts", "ok", "there are no counts yet")]
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
