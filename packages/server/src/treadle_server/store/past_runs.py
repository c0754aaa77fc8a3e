"""The runs that are over, wherever they are stored: in a row of `runs`, or in the row of the task they completed.

The SQL counterpart of `domain/last_run.py`, which does the same for a task in memory.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Subquery, case, literal_column, null, select, union_all

from treadle.wire.status import Outcome
from treadle_server.domain.tasks import RUN_FIELDS
from treadle_server.store.tables import runs, tasks

_c = tasks.c

_TOLD: dict[str, ColumnElement[Any]] = {
    "task_seq": _c.seq,
    "run_id": _c.run_id,
    "status": literal_column(f"'{Outcome.COMPLETED}'"),
    "reason": null(),
    "error": null(),
    "traceback": null(),
    "worker_id": _c.worker_id,
    "usage": case(
        (_c.usage_before.is_(None), _c.usage),
        (_c.usage > _c.usage_before, _c.usage - _c.usage_before),
    ),
    "claimed_at": _c.claimed_at,
    "started_at": _c.started_at,
    "ended_at": _c.completed_at,
    "digest": _c.digest,
}
"""A run's columns, taken from a completed task's row."""


def past_runs(*, of: Callable[[ColumnElement[int]], ColumnElement[bool]] | None = None) -> Subquery:
    """Return the runs that are over, with the columns of `runs`, in no order.

    `of` makes a condition from a task's number. It is applied to each of the two tables, because neither database
    pushes every condition down by itself; without it both tables are read whole.
    """
    written = select(*(runs.c[name] for name in RUN_FIELDS))
    told = select(*(_TOLD[name].label(name) for name in RUN_FIELDS)).where(_c.digest.is_not(None))
    if of is not None:
        written, told = written.where(of(runs.c.task_seq)), told.where(of(_c.seq))
    return union_all(written, told).subquery("past_runs")
