"""How many tasks stand where, and how many came to an end: kept by the writer in its transaction, never counted."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Select, Subquery, delete, func, literal_column, select, union_all

from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import count_deltas, lane_counts, lanes, past_outcomes
from treadle_server.store.transaction.rows import insert_tuples

CountKey = tuple[int, str, int]
"""Lane, status, and the priority of what is pending (0 for all else), as `count_key` gives them."""

OutcomeKey = tuple[int, str]
"""Lane and status."""


def count_key(lane: int, status: Status, priority: int) -> CountKey:
    """Return where a task is counted that stands so."""
    return lane, status, priority if status is Status.PENDING else 0


def count_change(counts: Counter[CountKey], task: Task, before: CountKey | None) -> None:
    """Count a task as it stands now, and no longer at the place `before`, which a new one has not."""
    counts[count_key(task.lane, task.status, task.priority)] += 1
    if before is not None:
        counts[before] -= 1


def count_alike(tasks: Iterable[Task], before: Status) -> Counter[CountKey]:
    """Return what changes of the counts by tasks that stood in one status before, and differ in nothing else."""
    counts: Counter[CountKey] = Counter()
    for (lane, priority, status), n in Counter((task.lane, task.priority, task.status) for task in tasks).items():
        counts[count_key(lane, before, priority)] -= n
        counts[count_key(lane, status, priority)] += n
    return counts


_ADD = """
INSERT INTO lane_counts (lane, status, priority, n) SELECT * FROM {rows} WHERE true
    ON CONFLICT (lane, status, priority) DO UPDATE SET n = n + excluded.n
"""
"""Together, for a claim among a hundred queues counts two hundred: one by one they take SQLite 470 us, and so 160."""


DELTAS = """
INSERT INTO count_deltas (id, lane, status, priority, n)
SELECT nextval('count_deltas_id'), v.* FROM unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[]) AS v
"""
"""PostgreSQL's statement; what `delta_columns` gives are its values. It may stand in another statement's WITH."""


async def apply_counts(tx: Tx, deltas: Mapping[CountKey, int]) -> None:
    """Add the deltas, which may be negative, to the counts; on PostgreSQL as rows that a service folds."""
    if tx.dialect == "sqlite":
        added = [(lane, str(status), priority, n) for (lane, status, priority), n in deltas.items() if n]
        tx.inline.run_together(_ADD, (), added)
        return
    if any(deltas.values()):
        # An upsert would make every writer wait for the same row; the deltas are folded by a service.
        await tx.direct.change(DELTAS, delta_columns(deltas))


def delta_columns(deltas: Mapping[CountKey, int]) -> tuple[list[Any], ...]:
    """Return lanes, statuses, priorities and differences, of those that are any."""
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
    """Return a subquery of (lane, status, priority, n) that is exact at this moment; one key may have several rows."""
    kept = select(lane_counts.c.lane, lane_counts.c.status, lane_counts.c.priority, lane_counts.c.n)
    if dialect == "sqlite":
        return kept.subquery("counts")
    pending = select(count_deltas.c.lane, count_deltas.c.status, count_deltas.c.priority, count_deltas.c.n)
    return union_all(kept, pending).subquery("counts")


def _pending(counts: Subquery) -> Select[Any]:
    return (
        select(counts.c.lane, counts.c.priority, func.sum(counts.c.n))
        .where(counts.c.status == literal_column("'pending'"), is_among(counts.c.lane, "lanes"))
        .group_by(counts.c.lane, counts.c.priority)
    )


_pending_counts = Prepared(*(_pending(all_counts(dialect)) for dialect in ("sqlite", "postgresql")))


async def pending_counts(tx: Tx, lane_ids: Collection[int]) -> dict[tuple[int, int], int]:
    """Return how many tasks are pending in the lanes, by (lane, priority); what has none is left out."""
    rows = await _pending_counts.rows(tx, lanes=lane_ids)
    return {(lane, priority): int(n) for lane, priority, n in rows}


async def open_counts(tx: Tx, job_nums: Collection[int]) -> dict[int, int]:
    """Return how many tasks of each job are open; jobs with none may be missing."""
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
    """Add how many tasks left which end: were rerun, resumed, resolved otherwise, or removed.

    With those that stand in an end they are all that ever came to it, so that what `/metrics` counts never shrinks.
    Nothing is written while no task leaves an end, which is nearly always.

    On PostgreSQL the rows stay locked until the commit. They are the last that a transaction locks, in one order, so
    that two servers never wait for each other.
    """
    rows = sorted((lane, str(status), n) for (lane, status), n in left.items())
    more = "ON CONFLICT (lane, status) DO UPDATE SET n = past_outcomes.n + excluded.n"
    await insert_tuples(tx, past_outcomes, ("lane", "status", "n"), rows, more)
