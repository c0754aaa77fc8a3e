"""The hot path's statements (insert, claim, start, complete), each for many tasks, in each database's own way.

Each is guarded by the task's previous version, and raises `LostUpdate` when another writer was faster. On SQLite a
change is one statement for up to 64 rows, on the driver itself; PostgreSQL takes the rows as arrays, in one round trip.

On PostgreSQL each row must be looked up by its number, whatever statistics the planner has. So the status is bound:
with a literal the planner proves that a partial index applies, and a claim of 122 tasks read the 5,139 pending ones of
a fresh table 122 times (575 ms; 4.5 along the primary key). And the number is compared with an array: an equation may
be followed the other way, from all tasks to the given ones. The changes of the counts are written by the same
statement, which saves a round trip.

Values that the row has already, or that many tasks share, are not sent for each task: an array of instants or UUIDs
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
"""The columns that differ between new tasks; the others are constant or null."""
_CONSTANTS = {
    "version": "1", "run_id": "-1", "unfenced": "false", "retry_count": "0", "requeue_count": "0",
    "cancel_requested": "false", "settled": "false",
}  # fmt: skip
NEW_AND_BOUND = (*_NEW, "flow_id", "on_dependency_failure", "unmet", "telling")
"""The columns of new tasks that are in flows or in dependencies."""
_NEW_OR_CLAIMED = (*NEW_AND_BOUND, "version", "run_id", "worker_id", "claimed_at", "taken_until")
"""The columns of new tasks when some are inserted as claimed."""
_OWN = frozenset({"seq", "id", "payload", "content_hash"})
"""Columns that are always treated as different, so that a single task is inserted by the same statement as many."""
MOST_IN_PLACE = 1000
"""Rows that are inserted into SQLite before the event loop gets a turn: some 20 ms of work."""

_ALIKE = {"tasks": _CONSTANTS, "task_specs": {}}
"""The constants in every new row of a table."""


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


_KEPT: dict[str, Callable[[Any], Any]] = {
    "status": attrgetter("value"),
    **dict.fromkeys(("due_at", "created_at", "updated_at", "deadline"), _micros),
}
"""Converters to SQLite's values, for instants and statuses."""


async def insert(tx: Tx, new: Sequence[Task], counts: Counts = NO_COUNTS, *, names: tuple[str, ...] = _NEW) -> None:
    """Insert new tasks, with the columns `names`, and add `counts`.

    Raises `IntegrityError` when an id or unique key is taken.
    """
    if tx.dialect == "postgresql":
        await postpone(tx, _insert_part(new, names), counts, beside=_specs_part(new))
    else:
        await apply_counts(tx, counts)
        for first in range(0, len(new), MOST_IN_PLACE):
            if first:
                await asyncio.sleep(0)
            some = new[first : first + MOST_IN_PLACE]
            _insert_on_sqlite(tx, "tasks", some, names)
            _insert_on_sqlite(tx, "task_specs", some, SPEC)
    await insert_tags(tx, new)


def _insert_on_sqlite(tx: Tx, table: str, new: Sequence[Task], names: tuple[str, ...]) -> None:
    own, shared = _split_columns(new, names)
    for name in own.keys() & _KEPT.keys():
        own[name] = list(map(_KEPT[name], own[name]))
    for name in shared.keys() & _KEPT.keys():
        shared[name] = _KEPT[name](shared[name])
    statement = _sqlite_insert(table, tuple(own), tuple(shared))
    tx.inline.run_together(statement, tuple(shared.values()), list(zip(*own.values(), strict=True)))


def _insert_part(new: Sequence[Task], names: tuple[str, ...]) -> Part:
    own, shared = _split_columns(new, names)
    values = (*map(list, own.values()), *shared.values())
    fills_queues = any(task.status is Status.PENDING for task in new)
    return Part("inserted", _pg_insert("tasks", tuple(own), tuple(shared)), values, len(new), tuple(new), fills_queues)


def _specs_part(new: Sequence[Task]) -> Part:
    own, shared = _split_columns(new, SPEC)
    values = (*map(list, own.values()), *shared.values())
    return Part("specified", _pg_insert("task_specs", tuple(own), tuple(shared)), values, len(new))


def _split_columns(new: Sequence[Task], names: tuple[str, ...]) -> tuple[dict[str, Sequence[Any]], dict[str, Any]]:
    """Return the columns that differ between the tasks, and those with a shared value, which is sent only once.

    1,000 tasks of one job differ in four of 38 columns. With all columns bound for each task SQLite took 9.4
    microseconds a task, and PostgreSQL with its driver 18.4; now they take 2.9 and 10.6.
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
    """Return the beginning of an INSERT, up to its SELECT's FROM, with the table's constants."""
    constants = {name: value for name, value in _ALIKE[table].items() if name not in names}
    # Names of tables and columns only; every value is bound.
    return f"INSERT INTO {table} ({', '.join((*names, *constants))}) SELECT {', '.join((*values, *constants.values()))}"


@lru_cache(maxsize=MOST_TEXTS)
def _sqlite_insert(table: str, own: tuple[str, ...], shared: tuple[str, ...]) -> str:
    values = [*("?" for _ in shared), *(f"v.column{i}" for i, _ in enumerate(own, 1))]
    return f"{_insert_into(table, (*shared, *own), values)} FROM {{rows}} AS v"


@lru_cache(maxsize=MOST_TEXTS)
def _pg_insert(table: str, own: tuple[str, ...], shared: tuple[str, ...]) -> str:
    """Return PostgreSQL's statement, which inserts a row for each position of the `own` columns' arrays."""
    arrays = ", ".join(pg_array(COLUMNS[name], i) for i, name in enumerate(own, 1))
    given = {name: f"v.{name}" for name in own}
    given |= {name: f"${i}::{pg_kind(COLUMNS[name])}" for i, name in enumerate(shared, 1 + len(own))}
    values = [f"{value}{pg_cast(COLUMNS[name])}" for name, value in given.items()]
    return f"{_insert_into(table, tuple(given), values)} FROM unnest({arrays}) AS v ({', '.join(own)})"


async def claim(tx: Tx, claimed: Sequence[Moved], counts: Counts = NO_COUNTS) -> None:
    """Write claims and add `counts`. Raises `LostUpdate`, and `IntegrityError` when another task has the target."""
    if not claimed:
        return
    if tx.dialect == "sqlite":
        at, rows = claimed[0][0].claimed_at, [(task.seq, was, task.worker_id) for task, was in claimed]
        await change_inline(tx, _CLAIM, (at, at, at), rows, counts)
        return
    claimed, counts = _merge_claims(tx.direct, claimed, counts)
    if claimed:
        await postpone(tx, _claim_part("claimed", claimed, Status.PENDING, steps=1), counts)


def _merge_claims(
    connection: DirectConnection, claimed: Sequence[Moved], counts: Counts
) -> tuple[Sequence[Moved], Counts]:
    """Merge claims into postponed inserts and promotions: such tasks are inserted or promoted as claimed at once.

    Return the other claims, with the counts to add for them. So a new task for a waiting worker takes a single
    statement: one round trip instead of four. And when many tasks wake at once, each is written only once.
    """
    change = connection.take_back()
    parts = list(change.parts[1:])
    put_in = {task.seq: task for task in change.new}
    if now := {task.seq: task for task, _ in claimed if task.seq in put_in}:
        new = list((put_in | now).values())
        parts = [*(part for part in parts if not part.new), _insert_part(new, _NEW_OR_CLAIMED)]
    promoted = sleepers_in(change) if change.part(_WOKEN) is None else frozenset()
    if woken := [(task, was - 1) for task, was in claimed if task.seq in promoted]:
        left_out = frozenset(task.seq for task, _ in woken)
        parts = [*without(parts, left_out), _claim_part(_WOKEN, woken, Status.SCHEDULED, steps=2)]
        now |= {task.seq: task for task, _ in woken}
    if now:
        change = counted(parts, change.touched, change.counts, counts)
        claimed, counts = [one for one in claimed if one[0].seq not in now], NO_COUNTS
    if change.parts:
        connection.postpone(change)
    return claimed, counts


_WOKEN = "woken"
"""The name of the part that promotes and claims at once."""


def _claim_part(name: str, claimed: Sequence[Moved], status: Status, *, steps: int) -> Part:
    """Return the part that claims tasks of that status, raising each one's version by `steps`."""
    workers = {worker_id: i for i, worker_id in enumerate(dict.fromkeys(task.worker_id for task, _ in claimed), 1)}
    rows = [(task.seq, was, workers[task.worker_id]) for task, was in claimed]
    shared = (list(workers), claimed[0][0].claimed_at, status, steps, Reason.SUSPENDED)
    return part_of(name, _PG_CLAIM, rows, *shared)


async def start(tx: Tx, started: Sequence[Moved], counts: Counts = NO_COUNTS) -> None:
    """Write starts of claimed tasks, all with the first one's time, and add `counts`. Raises `LostUpdate`."""
    if not started:
        return
    at, rows = started[0][0].started_at, [(task.seq, was) for task, was in started]
    if tx.dialect == "sqlite":
        await change_inline(tx, _START, (at, at), rows, counts)
    else:
        await postpone(tx, part_of("started", _PG_START, rows, at, Status.CLAIMED), counts)


async def complete(tx: Tx, completed: Sequence[Moved], counts: Counts = NO_COUNTS) -> None:
    """Write completions, each of which stores its run in the task's row, and add `counts`. Raises `LostUpdate`."""
    if not completed:
        return
    at, rows = completed[0][0].completed_at, [(t.seq, was, t.version, t.result, t.digest) for t, was in completed]
    if tx.dialect == "sqlite":
        await change_inline(tx, _COMPLETE, (at, at, at), rows, counts)
    else:
        await postpone(tx, part_of("ended", _PG_COMPLETE, rows, at, [Status.CLAIMED, Status.RUNNING]), counts)
