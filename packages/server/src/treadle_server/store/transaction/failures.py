"""The rows of failed runs, with what failed and where: written with the run, and removed with its task.

A task that failed while it had no open run, for example at its deadline, has a row under its last run, or under
`NEVER_RUN` if there was none.
"""

from collections.abc import Iterable
from datetime import datetime

from treadle_server.domain.failures import is_failed_without_run, is_failure, kind_of, place_of
from treadle_server.domain.hashes import hashed
from treadle_server.domain.tasks import Run, Task
from treadle_server.store.base import Tx
from treadle_server.store.tables import failures
from treadle_server.store.transaction.rows import insert_tuples

_NAMES = ("task_seq", "run_id", "key", "at", "job_num", "room", "is_final", "kind", "place")
_Row = tuple[int, int, int, datetime | None, int, str, bool, str, str]


async def insert_failures(tx: Tx, ended: Iterable[tuple[Task, Run]]) -> None:
    """Insert a row for each run that failed; each comes with its task's present state."""
    rows = [
        _row(task, run.run_id, kind_of(run.error, run.reason), place_of(run.traceback, task.job_name), run.ended_at)
        for task, run in ended
        if is_failure(task, run)
    ]
    await insert_tuples(tx, failures, _NAMES, rows)


async def insert_failed_without_run(tx: Tx, changed: Iterable[Task]) -> None:
    """Insert a row for each task that failed without an open run, unless its last run has one already."""
    rows = [
        _row(task, task.run_id, kind_of(task.error, task.reason), place_of(None, task.job_name), task.completed_at)
        for task in changed
        if is_failed_without_run(task)
    ]
    await insert_tuples(tx, failures, _NAMES, rows, "ON CONFLICT DO NOTHING")


def _row(task: Task, run_id: int, kind: str, place: str, at: datetime | None) -> _Row:
    is_final = task.completed_at is not None
    return task.seq, run_id, hashed(kind, place), at, task.job_num, task.room, is_final, kind, place
