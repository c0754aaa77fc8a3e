"""The statements that every task passes: claimed, started, completed; many tasks in one, on each database its own way.

Each is guarded by the version that the task had: who was overtaken by another writer raises `LostUpdate`. On SQLite a
change is one statement for up to 64 rows, on the driver itself; PostgreSQL takes the rows as arrays, in one round trip.

There each row must be looked up by its number, whatever the planner knows of the table. So the status is bound: of a
literal it proves that a partial index applies, and a claim of 122 tasks read the 5,139 pending ones of a fresh table
122 times (575 ms; 4.5 along the primary key). And the number stands in an array: an equation may be read the other way
round, from all tasks to those that are given. What follows from a change for the counts is written by the same
statement: a way there and back less.

What the row itself tells, or what is the same for many, is not sent for each of them: an array of instants or UUIDs
costs the driver more than all the rest. Without them a claim took the backend 22 microseconds a task instead of 26.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.postgres.changes import Part
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.writer import MOST_TEXTS
from treadle_server.store.task_rows import COLUMNS, SPEC
from treadle_server.store.transaction.counts import apply_counts
from treadle_server.store.transaction.postponed import NO_COUNTS, Counts, change_inline, counted, part_of, postpone
from treadle_server.store.transaction.promotions import sleepers_in, without
from treadle_server.store.transaction.rows import pg_array, pg_cast, pg_kind
from treadle_server.store.transaction.tags import insert_tags
from treadle_server.store.types import micros

Moved = tuple[Task, int]
"""A task as it is now, and the version that it had before."""

_CLAIM = """
UPDATE tasks SET status = 'claimed', version = version + 1, updated_at = ?, run_id = run_id + 1, worker_id = v.column3,
       claimed_at = ?, started_at = NULL, taken_until = ? + CAST(round(lease_seconds * 1e6) AS INTEGER),
       cancel_requested = 0, unfenced = 0, next_retry_at = NULL
  FROM {rows} AS v WHERE seq = v.column1 AND version = v.column2 AND status = 'pending'
"""
_START = """
UPDATE tasks SET status = 'running', version = version + 1, updated_at = ?, started_at = ?, unfenced = 0
  FROM {rows} AS v WHERE seq = v.column1 AND version = v.column2 AND status = 'claimed'
"""
_COMPLETE = """
UPDATE tasks SET status = 'completed', version = v.column3, updated_at = ?, started_at = coalesce(started_at, ?),
       completed_at = ?, result = v.column4, taken_until = NULL, next_retry_at = NULL, error = NULL, reason = NULL,
       progress = NULL, cancel_requested = 0, unfenced = 0, digest = v.column5
  FROM {rows} AS v WHERE seq = v.column1 AND version = v.column2 AND status IN ('claimed', 'running')
"""
_PG_CLAIM = """
UPDATE tasks SET status = 'claimed', version = tasks.version + $7, updated_at = $5, run_id = tasks.run_id + 1,
       reason = nullif(tasks.reason, $8), worker_id = ($4::uuid[])[v.worker], claimed_at = $5, started_at = NULL,
       taken_until = $5::timestamptz + make_interval(secs => tasks.lease_seconds), cancel_requested = false,
       unfenced = false, next_retry_at = NULL
  FROM unnest($1::bigint[], $2::int[], $3::int[]) AS v (seq, was, worker)
 WHERE tasks.seq = ANY (ARRAY[v.seq]) AND tasks.version = v.was AND tasks.status = $6
"""
_PG_START = """
UPDATE tasks SET status = 'running', version = tasks.version + 1, updated_at = $3, started_at = $3, unfenced = false
  FROM unnest($1::bigint[], $2::int[]) AS v (seq, was)
 WHERE tasks.seq = ANY (ARRAY[v.seq]) AND tasks.version = v.was AND tasks.status = $4
"""
_PG_COMPLETE = """
UPDATE tasks SET status = 'completed', version = v.version, updated_at = $6,
       started_at = coalesce(tasks.started_at, $6), completed_at = $6, result = v.result::jsonb, taken_until = NULL,
       next_retry_at = NULL, error = NULL, reason = NULL, progress = NULL, cancel_requested = false, unfenced = false,
       digest = v.digest
  FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::bytea[]) AS v (seq, was, version, result, digest)
 WHERE tasks.seq = ANY (ARRAY[v.seq]) AND tasks.version = v.was AND tasks.status = ANY ($7::text[])
"""

_NEW = (
    "seq", "id", "job_num", "lane", "job_name", "room", "status", "priority", "due_at", "created_at", "updated_at",
    "lease_seconds", "start_timeout", "heartbeat_increment", "timeout", "weight", "on_failure", "blocked", "target_num",
    "target", "deadline", "pool", "unique_key", "limit_key", "schedule_id",
)  # fmt: skip
"""The columns in which new tasks differ; the others are as the constants say, or null."""
_CONSTANTS = {
    "version": "1", "run_id": "-1", "unfenced": "false", "retry_count": "0", "requeue_count": "0",
    "cancel_requested": "false", "settled": "false",
}  # fmt: skip
NEW_AND_BOUND = (*_NEW, "flow_id", "on_dependency_failure", "unmet", "telling")
"""The columns in which new tasks differ that are of flows, wait for tasks, or are waited for."""
_NEW_OR_CLAIMED = (*NEW_AND_BOUND, "version", "run_id", "worker_id", "claimed_at", "taken_until")
"""The columns in which new tasks differ of which some are claimed when they are put in."""
_OWN = frozenset({"seq", "id", "payload", "content_hash"})
"""Columns in which new tasks always differ: one by itself is put in by the statement of many."""
MOST_IN_PLACE = 1000
"""Rows that SQLite is given before others have their turn: some 20 ms of work."""

_ALIKE = {"tasks": _CONSTANTS, "task_specs": {}}
"""What is the same in every new row of a table."""


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


_KEPT: dict[str, Callable[[Any], Any]] = {
    "status": attrgetter("value"),
    **dict.fromkeys(("due_at", "created_at", "updated_at", "deadline"), _micros),
}
"""What makes SQLite's values, of instants and statuses."""


async def insert(tx: Tx, new: Sequence[Task], counts: Counts = NO_COUNTS, *, names: tuple[str, ...] = _NEW) -> None:
    """Put in tasks that nothing has happened to yet, and count them as `counts` says; `names` are their columns.

    Raises IntegrityError when an id or unique key is taken.
    """
    if tx.dialect == "postgresql":
        await postpone(tx, _inserted(new, names), counts, beside=_specified(new))
    else:
        await apply_counts(tx, counts)
        for first in range(0, len(new), MOST_IN_PLACE):
            if first:
                await asyncio.sleep(0)
            some = new[first : first + MOST_IN_PLACE]
            _put_in(tx, "tasks", some, names)
            _put_in(tx, "task_specs", some, SPEC)
    await insert_tags(tx, new)


def _put_in(tx: Tx, table: str, new: Sequence[Task], names: tuple[str, ...]) -> None:
    own, shared = _parted(new, names)
    for name in own.keys() & _KEPT.keys():
        own[name] = list(map(_KEPT[name], own[name]))
    for name in shared.keys() & _KEPT.keys():
        shared[name] = _KEPT[name](shared[name])
    statement = _sqlite_insert(table, tuple(own), tuple(shared))
    tx.inline.run_together(statement, tuple(shared.values()), list(zip(*own.values(), strict=True)))


def _inserted(new: Sequence[Task], names: tuple[str, ...]) -> Part:
    own, shared = _parted(new, names)
    values = (*map(list, own.values()), *shared.values())
    fills_queues = any(task.status is Status.PENDING for task in new)
    return Part("inserted", _pg_insert("tasks", tuple(own), tuple(shared)), values, len(new), tuple(new), fills_queues)


def _specified(new: Sequence[Task]) -> Part:
    own, shared = _parted(new, SPEC)
    values = (*map(list, own.values()), *shared.values())
    return Part("specified", _pg_insert("task_specs", tuple(own), tuple(shared)), values, len(new))


def _parted(new: Sequence[Task], names: tuple[str, ...]) -> tuple[dict[str, Sequence[Any]], dict[str, Any]]:
    """Return the columns in which the tasks differ, and what is the same in all of them: that is sent once.

    What 1,000 tasks of one job have to themselves are four of 38 columns. Bound for each of them, all columns took
    SQLite 9.4 microseconds a task and PostgreSQL with its driver 18.4; so they take 2.9 and 10.6.
    """
    own: dict[str, Sequence[Any]] = {}
    shared: dict[str, Any] = {}
    for name, values in zip(names, zip(*map(_new_values(names), new), strict=True), strict=True):
        if name in _OWN or values.count(values[0]) < len(values):
            own[name] = values
        else:
            shared[name] = values[0]
    return own, shared


@cache
def _new_values(names: tuple[str, ...]) -> Callable[[Task], tuple[Any, ...]]:
    return attrgetter(*names)


def _insert_into(table: str, names: Sequence[str], values: Sequence[str]) -> str:
    """Return the beginning of an INSERT, as far as its SELECT's FROM, with what is the same in all new rows."""
    constants = {name: value for name, value in _ALIKE[table].items() if name not in names}
    # Names of tables and columns only; every value is bound.
    return f"INSERT INTO {table} ({', '.join((*names, *constants))}) SELECT {', '.join((*values, *constants.values()))}"


@lru_cache(maxsize=MOST_TEXTS)
def _sqlite_insert(table: str, own: tuple[str, ...], shared: tuple[str, ...]) -> str:
    values = [*("?" for _ in shared), *(f"v.column{i}" for i, _ in enumerate(own, 1))]
    return f"{_insert_into(table, (*shared, *own), values)} FROM {{rows}} AS v"


@lru_cache(maxsize=MOST_TEXTS)
def _pg_insert(table: str, own: tuple[str, ...], shared: tuple[str, ...]) -> str:
    """Return PostgreSQL's statement: a row for each place of the arrays of their own; the types are the columns'."""
    arrays = ", ".join(pg_array(COLUMNS[name], i) for i, name in enumerate(own, 1))
    given = {name: f"v.{name}" for name in own}
    given |= {name: f"${i}::{pg_kind(COLUMNS[name])}" for i, name in enumerate(shared, 1 + len(own))}
    values = [f"{value}{pg_cast(COLUMNS[name])}" for name, value in given.items()]
    return f"{_insert_into(table, tuple(given), values)} FROM unnest({arrays}) AS v ({', '.join(own)})"


async def claim(tx: Tx, claimed: Sequence[Moved], counts: Counts = NO_COUNTS) -> None:
    """Write claims and counts. Raises `LostUpdate`, and IntegrityError when a target is another task's already."""
    if not claimed:
        return
    if tx.dialect == "sqlite":
        at, rows = claimed[0][0].claimed_at, [(task.seq, was, task.worker_id) for task, was in claimed]
        await change_inline(tx, _CLAIM, (at, at, at), rows, counts)
        return
    claimed, counts = _put_in_claimed(tx.direct, claimed, counts)
    if claimed:
        await postpone(tx, _claimed("claimed", claimed, Status.PENDING, steps=1), counts)


def _put_in_claimed(
    connection: DirectConnection, claimed: Sequence[Moved], counts: Counts
) -> tuple[Sequence[Moved], Counts]:
    """Have tasks that are to be put in put in as claimed, and those that are to be promoted claimed where they sleep.

    Return the other claims, and what is to be counted of them. So a task that a worker waits for is one statement,
    which stands alone: one way there and back instead of four. And of many that wake at once each is written once.
    """
    change = connection.take_back()
    parts = list(change.parts[1:])
    put_in = {task.seq: task for task in change.new}
    if now := {task.seq: task for task, _ in claimed if task.seq in put_in}:
        new = list((put_in | now).values())
        parts = [*(part for part in parts if not part.new), _inserted(new, _NEW_OR_CLAIMED)]
    promoted = sleepers_in(change) if change.part(_WOKEN) is None else frozenset()
    if woken := [(task, was - 1) for task, was in claimed if task.seq in promoted]:
        left_out = frozenset(task.seq for task, _ in woken)
        parts = [*without(parts, left_out), _claimed(_WOKEN, woken, Status.SCHEDULED, steps=2)]
        now |= {task.seq: task for task, _ in woken}
    if now:
        change = counted(parts, change.touched, change.counts, counts)
        claimed, counts = [one for one in claimed if one[0].seq not in now], NO_COUNTS
    if change.parts:
        connection.postpone(change)
    return claimed, counts


_WOKEN = "woken"
"""The part that claims what it promotes."""


def _claimed(name: str, claimed: Sequence[Moved], status: Status, *, steps: int) -> Part:
    """Return the part that claims tasks of that status, each of which is so many versions further then."""
    workers = {worker_id: i for i, worker_id in enumerate(dict.fromkeys(task.worker_id for task, _ in claimed), 1)}
    rows = [(task.seq, was, workers[task.worker_id]) for task, was in claimed]
    shared = (list(workers), claimed[0][0].claimed_at, status, steps, Reason.SUSPENDED)
    return part_of(name, _PG_CLAIM, rows, *shared)


async def start(tx: Tx, started: Sequence[Moved], counts: Counts = NO_COUNTS) -> None:
    """Write starts of claimed tasks, all at the time of the first, and add `counts`. Raises `LostUpdate`."""
    if not started:
        return
    at, rows = started[0][0].started_at, [(task.seq, was) for task, was in started]
    if tx.dialect == "sqlite":
        await change_inline(tx, _START, (at, at), rows, counts)
    else:
        await postpone(tx, part_of("started", _PG_START, rows, at, Status.CLAIMED), counts)


async def complete(tx: Tx, completed: Sequence[Moved], counts: Counts = NO_COUNTS) -> None:
    """Write completions, each with the run that it tells from now on, and counts. Raises `LostUpdate`."""
    if not completed:
        return
    at, rows = completed[0][0].completed_at, [(t.seq, was, t.version, t.result, t.digest) for t, was in completed]
    if tx.dialect == "sqlite":
        await change_inline(tx, _COMPLETE, (at, at, at), rows, counts)
    else:
        await postpone(tx, part_of("ended", _PG_COMPLETE, rows, at, [Status.CLAIMED, Status.RUNNING]), counts)
