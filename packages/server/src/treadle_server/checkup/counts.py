"""Whether the counts of tasks that are kept are those that counting gives."""

from collections import Counter

from sqlalchemy import Connection, case, func, inspect, select

from treadle.wire import amounts
from treadle.wire.findings import Finding
from treadle_server.store.read.counts import counted
from treadle_server.store.tables import lane_counts, tasks

MOST = 3
"""Differences that are told."""


def look(connection: Connection) -> list[Finding]:
    """Count all tasks, and hold that against what is kept, both in one snapshot."""
    tables = inspect(connection).get_table_names()
    if tasks.name not in tables or lane_counts.name not in tables:
        return [Finding("counts", "ok", "nothing is counted yet")]
    # The priority is kept of pending tasks alone.
    priority = case((tasks.c.status == "pending", tasks.c.priority), else_=0)
    key = (tasks.c.lane, tasks.c.status, priority)
    there = Counter({tuple(of): n for *of, n in connection.execute(select(*key, func.count()).group_by(*key))})
    kept = Counter({tuple(of): int(n) for *of, n in connection.execute(select(counted(connection.dialect.name)))})
    wrong = sorted(of for of in there.keys() | kept.keys() if there[of] != kept[of])
    total = sum(there.values())
    if wrong:
        told = ", ".join(f"lane {of[0]} {of[1]}: {kept[of]} for {there[of]}" for of in wrong[:MOST])
        more = f" and {len(wrong) - MOST} more" if len(wrong) > MOST else ""
        return [Finding("counts", "fail", f"kept counts are not what counting gives ({told}{more}): queues, positions"
                        " and metrics mislead", "stop the servers and count anew, as docs/operations.md says; and"
                        " report it, for only a change by hand should do that")]  # fmt: skip
    return [Finding("counts", "ok", f"what is kept is what counting gives: {amounts.counted(total, 'task')}")]
