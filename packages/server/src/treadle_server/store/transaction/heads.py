"""The heads of the queues, which a claim reads. Each lane is read along its partial index, without sorting."""

import uuid
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Select,
    and_,
    bindparam,
    column,
    false,
    func,
    or_,
    select,
    true,
    tuple_,
    union_all,
)

from treadle.wire.fields import MOST_WEIGHT
from treadle.wire.ids import WorkerId
from treadle.wire.status import LEASED, Status
from treadle_server.domain.jobs import Lane
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import NUMBER, is_among, rows_of
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import holds, jobs, lanes, status_in, tasks
from treadle_server.store.task_rows import COLUMNS, HEADS, WITH_SPECS, locked
from treadle_server.store.transaction.counts import all_counts
from treadle_server.store.transaction.targets import with_free_targets

_HEAD = [COLUMNS[name] for name in HEADS.names]


class Claimable(NamedTuple):
    """A lane that may be claimed from."""

    lane: Lane
    room: str
    """The job's room."""


_claimable = Prepared(
    select(lanes.c.id, lanes.c.job_num, lanes.c.room, lanes.c.pool, jobs.c.room)
    .join_from(lanes, jobs, lanes.c.job_num == jobs.c.num)
    .where(is_among(lanes.c.id, "lanes"), jobs.c.paused.is_(false()), jobs.c.deleted_at.is_(None))
)


async def claimable_lanes(tx: Tx, lane_ids: Collection[int]) -> list[Claimable]:
    """Return the lanes that may be claimed from, leaving out those of paused or deleted jobs."""
    rows = await _claimable.rows(tx, lanes=lane_ids)
    return [Claimable(Lane(*row[:4]), row[4]) for row in rows]


def _head_of(lane: Any) -> Select[Any]:
    # The literals let both planners prove that the partial index applies, and `blocked` pins its second column.
    return (
        select(*_HEAD)
        .select_from(WITH_SPECS)
        .where(
            tasks.c.lane == lane,
            status_in(Status.PENDING),
            tasks.c.blocked.is_(false()),
            # Overdue tasks are no longer claimed, and wait for the sweeper to fail them (C11).
            or_(tasks.c.deadline.is_(None), tasks.c.deadline > bindparam("now")),
            tasks.c.weight <= bindparam("heaviest"),
        )
        .order_by(tasks.c.priority.desc(), tasks.c.due_at, tasks.c.seq)
        .limit(bindparam("most", literal_execute=False))
    )


HEADS_OF_LANE = _head_of(bindparam("lane"))
"""SQLite's statement, which reads the heads of one `lane`, because SQLite has no lateral joins.

It costs 0.06 ms, and few lanes have waiting tasks.
"""


def heads_of_lanes(*, is_exclusive: bool = False) -> Select[Any]:
    """Return PostgreSQL's statement, which reads the heads of all `lanes`."""
    rows, lane = rows_of("lanes", NUMBER)
    found = _head_of(lane)
    head = (found if is_exclusive else locked(found, skip=True)).lateral("head")
    return select(*head.c).select_from(rows.join(head, true()))


_heads = Prepared(HEADS_OF_LANE, heads_of_lanes())
_heads_of_exclusive = Prepared(heads_of_lanes(is_exclusive=True), is_independent=True)


async def heads(
    tx: Tx, lane_ids: Collection[int], most: int, now: datetime, heaviest: int = MOST_WEIGHT
) -> dict[int, list[Task]]:
    """Return up to `most` tasks of each lane that are claimable `now`, of weight up to `heaviest`, in queue order.

    Unless this server writes exclusively, they and their targets are locked, and those that another server has locked
    are left out.
    """
    found: dict[int, list[Task]] = {lane: [] for lane in lane_ids}
    if tx.dialect == "sqlite":
        for lane in lane_ids:
            rows = await _heads.rows(tx, lane=lane, most=most, now=now, heaviest=heaviest)
            found[lane] = HEADS.of_sqlite(rows)
        return found
    statement = _heads_of_exclusive if tx.is_exclusive else _heads
    rows = await statement.rows(tx, lanes=lane_ids, most=most, now=now, heaviest=heaviest)
    for task in await with_free_targets(tx, HEADS.of_postgres(rows)):
        found[task.lane].append(task)
    return found


_PLACE = ("lane", "priority", "due_at", "seq")
"""The columns that make a task's place."""

_Behind = Callable[[Any], ColumnElement[bool]]
"""Which tasks of the lane are behind a place, of which the columns are given."""


def _as_urgent(place: Any) -> ColumnElement[bool]:
    same = tasks.c.priority == place["priority"]
    return and_(same, tuple_(tasks.c.due_at, tasks.c.seq) > tuple_(place["due_at"], place["seq"]))


def _less_urgent(place: Any) -> ColumnElement[bool]:
    is_less: ColumnElement[bool] = tasks.c.priority < place["priority"]
    return is_less


def _after_place(behind: _Behind) -> Select[Any]:
    """Return SQLite's statement, which reads on after a place in one `lane`."""
    place = {name: bindparam(name, type_=tasks.c[name].type) for name in _PLACE}
    return _head_of(place["lane"]).where(behind(place))


def _after_places(behind: _Behind) -> Select[Any]:
    """Return PostgreSQL's statement, which reads on after a place in each of several lanes."""
    arrays = [bindparam(f"{name}s", type_=ARRAY(tasks.c[name].type)) for name in _PLACE]
    places = (
        func.unnest(*arrays)
        .table_valued(*(column(name, tasks.c[name].type) for name in _PLACE), name="last")
        .render_derived()
    )
    head = _head_of(places.c.lane).where(behind(places.c)).lateral("head")
    return select(*head.c).select_from(places.join(head, true()))


BEHIND = [
    Prepared(_after_place(behind), _after_places(behind), is_independent=True) for behind in (_as_urgent, _less_urgent)
]
"""What is behind a place, in the queue's order.

Each is a range of the index of its own. In one condition, they would be read from the first task as urgent on: over
what is already known, and on PostgreSQL over the entries of all that was taken since it last cleaned the index.
"""


async def heads_after(tx: Tx, last: Mapping[int, Task], most: int, now: datetime) -> dict[int, list[Task]]:
    """Return up to `most` tasks of each lane that are claimable `now` and come after its task in `last`, in order.

    For an exclusive writer: nothing is locked, and targets are not checked.
    """
    found: dict[int, list[Task]] = {lane: [] for lane in last}
    for statement in BEHIND:
        left = {lane: task for lane, task in last.items() if len(found[lane]) < most}
        for task in await _read_behind(tx, statement, left, most, now) if left else ():
            if len(found[task.lane]) < most:
                found[task.lane].append(task)
    return found


async def _read_behind(tx: Tx, statement: Prepared, last: Mapping[int, Task], most: int, now: datetime) -> list[Task]:
    bounds = {"most": most, "now": now, "heaviest": MOST_WEIGHT}
    places = [(lane, task.priority, task.due_at, task.seq) for lane, task in last.items()]
    if tx.dialect == "sqlite":
        rows = [
            row
            for place in places
            for row in await statement.rows(tx, **dict(zip(_PLACE, place, strict=True)), **bounds)
        ]
        return HEADS.of_sqlite(rows)
    names = (f"{name}s" for name in _PLACE)
    arrays = dict(zip(names, (list(values) for values in zip(*places, strict=True)), strict=True))
    return HEADS.of_postgres(await statement.rows(tx, **arrays, **bounds))


@cache
def _waiting_lanes(dialect: str) -> Select[Any]:
    counts = all_counts(dialect)
    pending = select(counts.c.lane).where(counts.c.status == "pending")
    return pending.group_by(counts.c.lane).having(func.sum(counts.c.n) > 0)


async def waiting_lanes(tx: Tx) -> set[int]:
    """Return the lanes with pending tasks."""
    return set((await tx.connection.execute(_waiting_lanes(tx.dialect))).scalars())


async def lanes_of_job(tx: Tx, job_num: int) -> set[int]:
    """Return the numbers of all lanes of the job, for every pool and room."""
    return set((await tx.connection.execute(select(lanes.c.id).where(lanes.c.job_num == job_num))).scalars())


_CLAIMS = 7420
"""The class of the advisory locks under which one worker's claims are counted."""


async def lock_claims(tx: Tx, ids: Collection[WorkerId]) -> None:
    """Keep other servers from claiming for these workers over HTTP until the commit.

    A transaction with these locks waits for nothing else (locked heads and targets are skipped), and takes them in
    order, so it can't deadlock. Locks on the rows could deadlock with heartbeats, which lock them in another order.
    """
    if ids and not tx.is_exclusive:
        keys = sorted({uuid.UUID(worker_id).int & 0x7FFF_FFFF for worker_id in ids})
        await tx.direct.fetch(_LOCK_CLAIMS, (_CLAIMS, keys))


_LOCK_CLAIMS = "SELECT pg_advisory_xact_lock($1::int, key) FROM unnest($2::int[]) AS keys (key)"


def _weights() -> Select[Any]:
    run = select(tasks.c.worker_id, tasks.c.weight).where(is_among(tasks.c.worker_id, "ids"), status_in(*LEASED))
    stopping = select(holds.c.worker_id, holds.c.weight).where(is_among(holds.c.worker_id, "ids"))
    held = union_all(run, stopping).subquery("held")
    return select(held.c.worker_id, func.sum(held.c.weight)).group_by(held.c.worker_id)


_held = Prepared(_weights())


async def weights_held(tx: Tx, ids: Collection[WorkerId]) -> dict[WorkerId, int]:
    """Return the total weight of the runs that each worker holds, including stopping ones; 0 for none."""
    found = await _held.rows(tx, ids=ids)
    return dict.fromkeys(ids, 0) | {WorkerId(str(worker_id)): int(weight) for worker_id, weight in found}
