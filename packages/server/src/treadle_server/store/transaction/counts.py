"""Maintain the counts of tasks and of past outcomes in the writer's transaction, so that nothing has to be counted."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Select, Subquery, delete, func, literal_column, select, union_all

from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_found_by
from treadle_server.store.prepared import ByKey
from treadle_server.store.tables import count_deltas, lane_counts, lanes, past_outcomes
from treadle_server.store.transaction.rows import insert_tuples

CountKey = tuple[int, str, int]
"""Lane, status, and the priority of pending tasks (0 for others), from `count_key`."""

OutcomeKey = tuple[int, str]
"""Lane and status."""

Queue = tuple[int, str]
"""A job's number and, in a fair job, the room."""


def count_key(lane: int, status: Status, priority: int) -> CountKey:
    """Return the key under which a task is counted."""
    return lane, status, priority if status is Status.PENDING else 0


def count_change(counts: Counter[CountKey], task: Task, before: CountKey | None) -> None:
    """Count a task by its present state, and no longer under `before`, which is None for a new task."""
    counts[count_key(task.lane, task.status, task.priority)] += 1
    if before is not None:
        counts[before] -= 1


def count_alike(tasks: Iterable[Task], before: Status) -> Counter[CountKey]:
    """Return the changes of the counts for tasks of which only the status changed, from `before`."""
    counts: Counter[CountKey] = Counter()
    for (lane, priority, status), n in Counter((task.lane, task.priority, task.status) for task in tasks).items():
        counts[count_key(lane, before, priority)] -= n
        counts[count_key(lane, status, priority)] += n
    return counts


def join_queue(queue: Counter[int], task: Task) -> int:
    """Count a new task in its queue, which has these counts by priority, and return its position, from 1 on."""
    ahead = sum(n for priority, n in queue.items() if priority >= task.priority)
    queue[task.priority] += 1
    return ahead + 1


_ADD = """
INSERT INTO lane_counts (lane, status, priority, n) SELECT * FROM {rows} WHERE true
    ON CONFLICT (lane, status, priority) DO UPDATE SET n = n + excluded.n
"""
"""In one statement, because a claim from a hundred queues changes two hundred counts: one by one they take SQLite 470
us, together 160."""


DELTAS = """
INSERT INTO count_deltas (id, lane, status, priority, n)
SELECT nextval('count_deltas_id'), v.* FROM unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[]) AS v
"""
"""PostgreSQL's statement, with the values from `delta_columns`. It may be part of another statement's WITH."""


async def apply_counts(tx: Tx, deltas: Mapping[CountKey, int]) -> None:
    """Add the deltas, which may be negative, to the counts; on PostgreSQL as rows that a service folds in later."""
    if tx.dialect == "sqlite":
        added = [(lane, str(status), priority, n) for (lane, status, priority), n in deltas.items() if n]
        tx.inline.run_together(_ADD, (), added)
        return
    if any(deltas.values()):
        # An upsert would make every writer wait for the same rows.
        await tx.direct.change(DELTAS, delta_columns(deltas))


def delta_columns(deltas: Mapping[CountKey, int]) -> tuple[list[Any], ...]:
    """Return the columns lane, status, priority and delta, without zero deltas."""
    rows = [(lane, str(status), priority, n) for (lane, status, priority), n in deltas.items() if n]
    return tuple(list(column) for column in zip(*rows, strict=True)) or ([], [], [], [])


async def fold_counts(tx: Tx, most: int = 10_000) -> int:
    """PostgreSQL: move up to `most` deltas into the counts, and return how many."""
    ids = select(count_deltas.c.id).order_by(count_deltas.c.id).limit(most).with_for_update(skip_locked=True)
    gone = delete(count_deltas).where(count_deltas.c.id.in_(ids)).returning(count_deltas)
    found = (await tx.connection.execute(gone)).all()
    total: Counter[CountKey] = Counter()
    for row in found:
        total[row.lane, row.status, row.priority] += row.n
    rows = [(*key, n) for key, n in sorted(total.items()) if n]
    more = "ON CONFLICT (lane, status, priority) DO UPDATE SET n = lane_counts.n + excluded.n"
    await insert_tuples(tx, lane_counts, ("lane", "status", "priority", "n"), rows, more)
    return len(found)


def all_counts(dialect: str) -> Subquery:
    """Return a subquery of (lane, status, priority, n) with exact counts; a key may have several rows to add up."""
    kept = select(lane_counts.c.lane, lane_counts.c.status, lane_counts.c.priority, lane_counts.c.n)
    if dialect == "sqlite":
        return kept.subquery("counts")
    pending = select(count_deltas.c.lane, count_deltas.c.status, count_deltas.c.priority, count_deltas.c.n)
    return union_all(kept, pending).subquery("counts")


_QUEUE = (lanes.c.job_num, lanes.c.room)


def _waiting(counts: Subquery, those: ColumnElement[bool]) -> Select[Any]:
    of_lanes = (
        select(counts.c.lane, counts.c.priority, func.sum(counts.c.n).label("n"))
        .where(
            counts.c.status == literal_column("'pending'"),
            is_found_by(counts.c.lane, select(lanes.c.id).where(those)),
        )
        .group_by(counts.c.lane, counts.c.priority)
        # Or PostgreSQL would read all deltas for each of the lanes.
        .cte("waiting")
        .prefix_with("MATERIALIZED")
    )
    return (
        select(*_QUEUE, of_lanes.c.priority, func.sum(of_lanes.c.n))
        .join_from(of_lanes, lanes, lanes.c.id == of_lanes.c.lane)
        .group_by(*_QUEUE, of_lanes.c.priority)
    )


_queue_counts = ByKey(
    _QUEUE, partial(_waiting, all_counts("sqlite")), postgres=partial(_waiting, all_counts("postgresql"))
)


async def queue_counts(tx: Tx, queues: Collection[Queue]) -> dict[Queue, Counter[int]]:
    """Return how many tasks wait in each of the queues, by priority; zero counts may be left out."""
    found: dict[Queue, Counter[int]] = {queue: Counter() for queue in queues}
    for num, room, priority, n in await _queue_counts.found(tx, queues):
        found[num, room][priority] = int(n)
    return found


async def open_counts(tx: Tx, job_nums: Collection[int]) -> dict[int, int]:
    """Return how many tasks of each job are open; jobs without any may be missing."""
    if not job_nums:
        return {}
    counts = all_counts(tx.dialect)
    statement = (
        select(lanes.c.job_num, func.sum(counts.c.n))
        .join_from(lanes, counts, lanes.c.id == counts.c.lane)
        .where(lanes.c.job_num.in_(sorted(job_nums)), counts.c.status.not_in(sorted(TERMINAL)))
        .group_by(lanes.c.job_num)
    )
    return {job_num: int(n) for job_num, n in await tx.connection.execute(statement)}


async def add_past_outcomes(tx: Tx, left: Mapping[OutcomeKey, int]) -> None:
    """Add the tasks that left a terminal status: were rerun, resumed, resolved differently, or removed.

    Together with the tasks that are in a terminal status they are all that ever reached it, so that the counters of
    `/metrics` never decrease. Mostly no task leaves one, and nothing is written.

    On PostgreSQL the rows stay locked until the commit. They are the last that a transaction locks, in a fixed order,
    so that servers never deadlock over them.
    """
    rows = sorted((lane, str(status), n) for (lane, status), n in left.items())
    more = "ON CONFLICT (lane, status) DO UPDATE SET n = past_outcomes.n + excluded.n"
    await insert_tuples(tx, past_outcomes, ("lane", "status", "n"), rows, more)
