"""Find and remove ended tasks; their runs, steps, logs and artifacts' rows are removed with them.

A reader finds candidates; the writer checks each again, under its locks, before it removes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, bindparam, delete, exists, func, literal, not_, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import OPEN, TERMINAL, Status, WorkerState
from treadle_server.store.arrivals import first_since
from treadle_server.store.base import LostUpdate, Tx
from treadle_server.store.bound_lists import is_among
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import (
    artifacts,
    holds,
    schedules,
    status_in,
    task_dependencies,
    task_logs,
    tasks,
    webhook_deliveries,
    workers,
)
from treadle_server.store.task_rows import STATUS
from treadle_server.store.transaction.artifacts import locations_of_tasks
from treadle_server.store.transaction.dependencies import delete_empty_flows
from treadle_server.store.transaction.lock_order import free_tasks
from treadle_server.store.transaction.targets import holding

Cutoffs = Mapping[Status, datetime]
"""For each terminal status, the instant by which tasks must have ended to be removed; other tasks stay."""

LONGEST = 0.02
"""Seconds after which a step stops, so that it never holds the writer for 50 ms, whatever rows cost."""

AT_ONCE = 16
"""Tasks that are deleted between two checks of the time."""

MOST_LINES = 2_000
"""Most log lines that are deleted in one step. A task with more loses lines in several steps before it is deleted
itself."""

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)

_c = tasks.c


class Removed(NamedTuple):
    """A task to be removed, with the fields that counts and listeners need."""

    seq: int
    id: TaskId
    job_name: str
    lane: int
    status: Status
    lines: int
    """How many lines it logged; not counted beyond `MOST_LINES` + 1."""
    has_artifacts: bool
    flow_id: str | None = None


async def lost_workers(connection: AsyncConnection, before: datetime, *, most: int) -> list[WorkerId]:
    """Return up to `most` workers that were lost before the instant."""
    lost = select(workers.c.id).where(workers.c.state == WorkerState.LOST, workers.c.lost_at < before).limit(most)
    return list((await connection.execute(lost)).scalars())


def _named(cutoffs: Cutoffs) -> dict[str, datetime]:
    """Return the parameters of `_ended`."""
    return {status.value: cutoffs.get(status, _NEVER) for status in sorted(TERMINAL)}


def _ended() -> ColumnElement[bool]:
    return or_(*(and_(status_in(s), _c.completed_at <= bindparam(s.value)) for s in sorted(TERMINAL)))


_MAY_RUN_AGAIN = (Status.FAILED, Status.CANCELLED)


def _referred() -> ColumnElement[bool]:
    """Return the condition that something still needs the task."""
    dependent = tasks.alias("dependent")
    # A failed or cancelled dependent task may be run again: then it uses this one's result, or waits for it again. The
    # latter counts only until the dependent task's own cutoff; otherwise one pass could remove only the end of a chain.
    is_in_time = or_(
        *(
            and_(dependent.c.status == literal(s.value), dependent.c.completed_at > bindparam(s.value))
            for s in _MAY_RUN_AGAIN
        )
    )
    would_take = and_(
        _c.status == literal(Status.COMPLETED.value),
        dependent.c.status.in_([literal(s.value) for s in _MAY_RUN_AGAIN]),
    )
    needed = (
        select(dependent.c.seq)
        .join_from(task_dependencies, dependent, task_dependencies.c.task_seq == dependent.c.seq)
        .where(task_dependencies.c.needs_seq == _c.seq, or_(dependent.c.completed_at.is_(None), would_take, is_in_time))
    )
    owed = select(webhook_deliveries.c.id).where(
        webhook_deliveries.c.task_seq == _c.seq, webhook_deliveries.c.next_at.is_not(None)
    )
    uploading = select(artifacts.c.id).where(artifacts.c.task_seq == _c.seq, artifacts.c.state == literal("uploading"))
    last = select(schedules.c.id).where(
        schedules.c.id == _c.schedule_id, schedules.c.last_task_id == _c.id, schedules.c.deleted_at.is_(None)
    )
    of_flow = tasks.alias("of_flow")
    # By status, along the index: in a flow with 100,000 ended tasks no row is read. An EXISTS might be hashed instead.
    is_open = of_flow.c.status.in_([literal(status.value) for status in sorted(OPEN)])
    goes_on = select(of_flow.c.seq).where(of_flow.c.flow_id == _c.flow_id, is_open).limit(1).scalar_subquery()
    return or_(
        exists(select(holds.c.task_seq).where(holds.c.task_seq == _c.seq)),
        exists(needed),
        and_(_c.flow_id.is_not(None), goes_on.is_not(None)),
        exists(owed),
        exists(uploading),
        and_(_c.schedule_id.is_not(None), exists(last)),
    )


def may_go() -> ColumnElement[bool]:
    """Return the condition that a task ended long enough ago, holds nothing, and is not needed."""
    return and_(_ended(), not_(holding), not_(_referred()))


_walk = (
    select(_c.seq)
    .where(_c.seq > bindparam("after"), _c.seq <= bindparam("upto"), may_go())
    .order_by(_c.seq)
    .limit(bindparam("most"))
)

_counted = (
    select(_c.job_name, _c.status, func.count())
    .where(_c.seq <= bindparam("upto"), may_go())
    .group_by(_c.job_name, _c.status)
    .order_by(_c.job_name, _c.status)
)


async def candidates(connection: AsyncConnection, cutoffs: Cutoffs, *, after: int, upto: int, most: int) -> list[int]:
    """Return up to `most` tasks between the two numbers that a reader finds removable, oldest first."""
    parameters = {**_named(cutoffs), "after": after, "upto": upto, "most": most}
    return list((await connection.execute(_walk, parameters)).scalars())


async def counted(connection: AsyncConnection, cutoffs: Cutoffs) -> list[tuple[str, Status, int]]:
    """Return how many tasks are removable, as (job, status, number)."""
    parameters = {**_named(cutoffs), "upto": await last_before(connection, max(cutoffs.values()))}
    return [(job, STATUS[status], n) for job, status, n in await connection.execute(_counted, parameters)]


async def last_before(connection: AsyncConnection, instant: datetime) -> int:
    """Return the number up to which tasks came in by `instant`; later ones can't have ended before it."""
    return await first_since(connection, instant + timedelta.resolution) - 1


def _found() -> Select[Any]:
    some = select(task_logs.c.line).where(task_logs.c.task_seq == _c.seq).limit(MOST_LINES + 1).correlate(tasks)
    lines = select(func.count()).select_from(some.subquery("some")).scalar_subquery()
    stored = exists(select(artifacts.c.id).where(artifacts.c.task_seq == _c.seq))
    return (
        select(_c.seq, _c.id, _c.job_name, _c.lane, _c.status, lines, stored, _c.flow_id)
        .where(is_among(_c.seq, "seqs"), may_go())
        .order_by(_c.seq)
    )


_finding = Prepared(_found())


@dataclass(slots=True)
class Pruning:
    """One step of pruning: the tasks to remove and, afterwards, what was removed and how long it held the writer."""

    seqs: Sequence[int]
    cutoffs: Cutoffs
    found: list[Removed] = field(default_factory=list)
    """The removable tasks; a command may take some out again."""
    removed: list[Removed] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    """Removable tasks that are left for another step, because time was up or their log was too long."""
    locations: list[str] = field(default_factory=list)
    """The locations of the removed tasks' artifacts, to be deleted after the commit."""
    is_alone: bool = False
    """Whether this server writes exclusively."""
    began_at: float = 0.0
    """By `perf_counter`."""
    seconds: float = 0.0

    async def find(self, tx: Tx) -> None:
        """Read which tasks are removable, locked until the commit, without those that another server has locked."""
        began = self.began_at = perf_counter()
        self.is_alone = tx.is_exclusive
        # Lock them in a statement before the one that checks them, which would not see what was committed after it
        # began.
        rows = await _finding.rows(tx, seqs=await free_tasks(tx, self.seqs), **_named(self.cutoffs))
        self.found = [
            Removed(seq, TaskId(str(id_)), job, lane, STATUS[status], lines, bool(stored), flow and str(flow))
            for seq, id_, job, lane, status, lines, stored, flow in rows
        ]
        self.seconds += perf_counter() - began

    async def carry_out(self, tx: Tx) -> None:
        """Delete the found tasks, until time is up. Raises `LostUpdate`."""
        began = perf_counter()
        await _remember_greatest(tx, max((task.seq for task in self.found), default=0))
        waiting = list(self.found)
        while waiting:
            portion, waiting = _portion(waiting)
            if not portion:
                await _delete_lines(tx, waiting[0].seq)
                break
            self.locations += await locations_of_tasks(tx, [task.seq for task in portion if task.has_artifacts])
            await _delete(tx, [task.seq for task in portion])
            await delete_empty_flows(tx, {task.flow_id for task in portion if task.flow_id is not None})
            self.removed += portion
            if perf_counter() - began >= LONGEST:
                break
        self.left = [task.seq for task in waiting]
        self.seconds += perf_counter() - began


def _portion(waiting: list[Removed]) -> tuple[list[Removed], list[Removed]]:
    """Return the next tasks to delete, by number and log lines, and the rest; none if the first has too many lines."""
    lines = 0
    for i, task in enumerate(waiting):
        lines += task.lines
        if i == AT_ONCE or lines > MOST_LINES:
            return waiting[:i], waiting[i:]
    return waiting, []


_DELETE = "DELETE FROM tasks WHERE seq = ?"
_PG_DELETE = """
WITH ended AS (DELETE FROM runs WHERE task_seq = ANY($1::bigint[])),
     specified AS (DELETE FROM task_specs WHERE seq = ANY($1::bigint[]))
DELETE FROM tasks WHERE seq = ANY($1::bigint[])
"""
_l = task_logs.c
_OLDEST = (
    select(_l.run_id, _l.line).where(_l.task_seq == bindparam("of")).order_by(_l.run_id, _l.line).limit(MOST_LINES)
)
_DELETE_LINES = delete(task_logs).where(_l.task_seq == bindparam("of"), tuple_(_l.run_id, _l.line).in_(_OLDEST))


async def _delete(tx: Tx, seqs: list[int]) -> None:
    if tx.dialect == "sqlite":
        gone = tx.inline.run_many(_DELETE, [(seq,) for seq in seqs])
    else:
        gone = await tx.direct.change(_PG_DELETE, (seqs,))
    if gone != len(seqs):
        raise LostUpdate(f"{len(seqs) - gone} of {len(seqs)} tasks were removed by another writer")


async def _delete_lines(tx: Tx, seq: int) -> None:
    """Delete the oldest lines of a task's log, up to `MOST_LINES`."""
    await tx.connection.execute(_DELETE_LINES, {"of": seq})


_REMEMBER = """
INSERT INTO meta (key, value) VALUES ('task_seq', ?)
    ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))
"""
"""The row of `meta` with the greatest number of a removed task, from which SQLite goes on counting (`allocate.py`)."""


async def _remember_greatest(tx: Tx, seq: int) -> None:
    """On SQLite, record the number of the newest task when that is removed, so that it is never reused."""
    if tx.dialect != "sqlite" or not seq:
        return
    [(greatest,)] = tx.inline.fetch("SELECT max(seq) FROM tasks")
    if greatest == seq:
        tx.inline.run_many(_REMEMBER, [(str(seq),)])
