"""Bulk writes of the writer; each update is guarded by the task's previous status and run."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import compress
from operator import is_not
from typing import Any

from sqlalchemy import Table, delete

from treadle.wire.ids import WorkerId
from treadle_server.domain.tasks import TASK_FIELDS, Task, task_values
from treadle_server.store.base import LostUpdate, Tx
from treadle_server.store.tables import job_schemas, task_logs, task_specs, tasks, worker_jobs
from treadle_server.store.task_rows import SPEC, STATE
from treadle_server.store.transaction import hot
from treadle_server.store.transaction.rows import insert_rows, insert_tuples, update_tuples
from treadle_server.store.transaction.tags import insert_tags, update_tags

LogLine = tuple[int, int, int, datetime, str, str]
"""(task's number, run, line's number, time, level, message)."""

_PLACES = range(len(TASK_FIELDS))


async def insert_tasks(tx: Tx, new: Collection[Task]) -> None:
    """Insert tasks. Raises SQLAlchemy's `IntegrityError` when an id or unique key is already taken."""
    plain = [task for task in new if task.version == 1 and task.limits is None]
    if unbound := [task for task in plain if not task.is_bound]:
        await hot.insert(tx, unbound)
    if bound := [task for task in plain if task.is_bound]:
        await hot.insert(tx, bound, names=hot.NEW_AND_BOUND)
    if others := [task for task in new if task.version != 1 or task.limits is not None]:
        await insert_rows(tx, tasks, STATE, others)
        await insert_rows(tx, task_specs, SPEC, others)
        await insert_tags(tx, others)


_GUARDS: Mapping[Table, tuple[str, ...]] = {tasks: ("status", "run_id"), task_specs: ()}
"""The columns that must be unchanged for a row to be written; nobody changes `task_specs` concurrently."""

_SPEC = frozenset(SPEC) - set(STATE)


async def update_tasks(tx: Tx, changed: Iterable[tuple[Task, Task]]) -> None:
    """Write the changes of each task from its previous state; those of the same columns share a statement.

    Raises `LostUpdate` when a row no longer has the previous status and run.
    """
    shapes: dict[tuple[Table, tuple[str, ...]], list[tuple[Any, ...]]] = defaultdict(list)
    retagged: list[Task] = []
    for task, before in changed:
        now, was = task_values(task), task_values(before)
        # Nearly all values are the same objects as before: comparing all sixty in a loop takes three times as long.
        moved = [i for i in compress(_PLACES, map(is_not, now, was)) if now[i] != was[i]]
        row = {TASK_FIELDS[i]: now[i] for i in moved}
        edited = {name: row.pop(name) for name in sorted(_SPEC.intersection(row))}
        if edited:
            shapes[task_specs, tuple(edited)].append((task.seq, *edited.values()))
        if "tags" in edited:
            retagged.append(task)
        if row:
            shapes[tasks, tuple(row)].append((task.seq, before.status, before.run_id, *row.values()))
    for (table, names), rows in shapes.items():
        written = await update_tuples(tx, table, ("seq",), names, rows, _GUARDS[table])
        if written != len(rows):
            raise LostUpdate(f"{len(rows) - written} of {len(rows)} tasks were changed by another writer")
    await update_tags(tx, retagged)


async def insert_schemas(tx: Tx, new: Iterable[tuple[int, int, str]], created_at: Any) -> None:
    """Insert schemas, as (job's number, version, schema), registered at `created_at`."""
    rows = [(*one, created_at) for one in new]
    await insert_tuples(tx, job_schemas, ("job_num", "version", "schema", "created_at"), rows)


async def link(tx: Tx, pairs: Collection[tuple[WorkerId, int]]) -> None:
    """Link workers to the jobs that they serve, as (worker's id, job's number)."""
    await insert_tuples(tx, worker_jobs, ("worker_id", "job_num"), pairs)


async def unlink_all(tx: Tx, ids: Collection[WorkerId]) -> None:
    """Remove all links of the workers, which then serve no jobs."""
    if ids:
        await tx.connection.execute(delete(worker_jobs).where(worker_jobs.c.worker_id.in_(sorted(ids))))


async def insert_logs(tx: Tx, rows: Sequence[LogLine]) -> None:
    """Insert log lines."""
    await insert_tuples(tx, task_logs, ("task_seq", "run_id", "line", "at", "level", "message"), rows)
