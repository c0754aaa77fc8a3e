"""Promotions of due tasks to pending: many in one statement, in each database's own way.

Thousands of tasks may have slept until the same moment, and all should go on at once. With the general update of
changed columns a promotion took the server 42 of the 110 microseconds that such a task takes until its code goes on.
"""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, literal, select

from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.postgres.changes import Change, Part
from treadle_server.store.prepared import Prepared, Rows
from treadle_server.store.tables import status_in, tasks
from treadle_server.store.task_rows import WHOLE, locked, select_tasks
from treadle_server.store.transaction.postponed import NO_COUNTS, Counts, change_inline, part_of, postpone
from treadle_server.store.transaction.targets import keeps_waiting, with_free_targets

_PROMOTE = """
UPDATE tasks SET status = 'pending', version = version + 1, updated_at = ?, reason = nullif(reason, 'suspended')
  FROM {rows} AS v WHERE seq = v.column1 AND version = v.column2 AND status = 'scheduled'
"""
_PG_PROMOTE = """
UPDATE tasks SET status = $3, version = tasks.version + 1, updated_at = $4, reason = nullif(tasks.reason, $5)
  FROM unnest($1::bigint[], $2::int[]) AS v (seq, was)
 WHERE tasks.seq = ANY (ARRAY[v.seq]) AND tasks.version = v.was AND tasks.status = $6
"""
_PROMOTED = "promoted"


def due_statement(*, is_exclusive: bool = False) -> Select[Any]:
    """Return the statement that reads due tasks, and for each whether its last run may keep it waiting."""
    found = (
        select_tasks(keeps_waiting if is_exclusive else literal(value=True))
        .where(status_in(Status.SCHEDULED), tasks.c.due_at <= bindparam("now"))
        # Only by this column: with a second one PostgreSQL would sort all that are due at once for each portion.
        .order_by(tasks.c.due_at)
        .limit(bindparam("most"))
    )
    # A row that another server is at is left to it.
    return found if is_exclusive else locked(found, skip=True)


_due = Prepared(due_statement())
_due_of_exclusive = Prepared(due_statement(is_exclusive=True), is_independent=True)

Due = tuple[list[Task], AbstractSet[int]]
"""Due tasks, and the numbers of those that wait for nothing else."""


async def due_tasks(tx: Tx, now: datetime, most: int) -> Due:
    """Return up to `most` due tasks, in order of their due times.

    Unless this server writes exclusively, they are locked, with their targets; those that another server has locked, or
    whose targets it has, are left out.
    """
    rows = await (_due_of_exclusive if tx.is_exclusive else _due).rows(tx, now=now, most=most)
    found, free = _due_of(tx, rows)
    return await with_free_targets(tx, found), free


def _due_of(tx: Tx, rows: Rows) -> Due:
    whole = (row[:-1] for row in rows)
    found = WHOLE.of(tx.dialect, whole)
    # A scheduled task gets no new hold, and `blocked` tells whatever else it waits for.
    return found, {task.seq for task, row in zip(found, rows, strict=True) if not (row[-1] or task.blocked)}


DUE_SEQS = Prepared(
    select(tasks.c.seq)
    .where(status_in(Status.SCHEDULED), tasks.c.due_at <= bindparam("until"))
    .order_by(tasks.c.due_at)
    .limit(bindparam("most")),
    is_independent=True,
)
DUE_BY_SEQ = Prepared(select_tasks(keeps_waiting).where(is_among(tasks.c.seq, "seqs")), is_independent=True)


async def due_seqs(tx: Tx, until: datetime, most: int) -> list[int]:
    """Return the numbers of up to `most` tasks that are due by `until`, in order of their due times.

    For an exclusive writer.
    """
    return [seq for (seq,) in await DUE_SEQS.rows(tx, until=until, most=most)]


async def due_tasks_by_seq(tx: Tx, seqs: Collection[int]) -> Due:
    """Return due tasks by number, in no order. For an exclusive writer."""
    return _due_of(tx, await DUE_BY_SEQ.rows(tx, seqs=seqs))


async def promote(tx: Tx, promoted: Sequence[tuple[Task, int]], counts: Counts = NO_COUNTS) -> None:
    """Write promotions, all with the same time, and add `counts`; `promoted` has (task, previous version).

    Raises `LostUpdate` when another writer has changed one; on PostgreSQL only when the statement is sent.
    """
    if not promoted:
        return
    now, rows = promoted[0][0].updated_at, [(task.seq, was) for task, was in promoted]
    if tx.dialect == "sqlite":
        await change_inline(tx, _PROMOTE, (now,), rows, counts)
    else:
        shared = (Status.PENDING, now, Reason.SUSPENDED, Status.SCHEDULED)
        await postpone(tx, part_of(_PROMOTED, _PG_PROMOTE, rows, *shared, fills_queues=True), counts)


def sleepers_in(change: Change) -> AbstractSet[int]:
    """Return the numbers of the tasks that a change promotes."""
    part = change.part(_PROMOTED)
    return frozenset() if part is None else frozenset(part.values[0])


def without(parts: Sequence[Part], seqs: AbstractSet[int]) -> list[Part]:
    """Return the parts without the promotions of some tasks, which another part takes over."""
    left: list[Part] = []
    for part in parts:
        if part.name != _PROMOTED:
            left.append(part)
        elif rows := [row for row in zip(*part.values[:2], strict=True) if row[0] not in seqs]:
            left.append(part_of(_PROMOTED, part.sql, rows, *part.values[2:], fills_queues=True))
    return left
