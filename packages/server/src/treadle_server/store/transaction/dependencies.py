"""The writer's reads and writes of dependencies between tasks, and of flows.

The tasks that depend on an ended task are read along the index of edges, in portions, and updated. Rows that another
server has locked are skipped, and read again later: this work never waits for locks, so it can't deadlock.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import orjson
from sqlalchemy import bindparam, delete, exists, or_, select, text, update

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.dependencies import TOLD, UNTOLD, ResultPlace
from treadle_server.domain.flows import Flow
from treadle_server.domain.tasks import Task
from treadle_server.store.base import Tx
from treadle_server.store.bound_lists import is_among, is_same
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import TO_TELL, flows, task_dependencies, task_specs, tasks
from treadle_server.store.task_rows import STATUS, WHOLE, select_tasks
from treadle_server.store.transaction.rows import insert_tuples, update_tuples
from treadle_server.store.transaction.targets import free_targets

_c = tasks.c
_e = task_dependencies.c


class Needed(NamedTuple):
    """A task that a new one depends on, with the fields that are needed for that."""

    seq: int
    id: TaskId
    status: Status
    room: str
    submitter: str
    job_name: str
    run_id: int
    lane: int
    telling: int | None


class Edge(NamedTuple):
    """A dependency of one task on another."""

    task_seq: int
    needs_seq: int
    met: bool
    places: list[ResultPlace]


class EdgeStatus(NamedTuple):
    """An edge, with the status of the task that is depended on."""

    needs_seq: int
    needs_id: TaskId
    status: Status
    met: bool


class Ended(NamedTuple):
    """A task whose dependent tasks have yet to be updated."""

    seq: int
    id: TaskId
    status: Status
    telling: int


class Waiter(NamedTuple):
    """A task that depends on another one."""

    needs_seq: int
    task_seq: int
    met: bool


_SUBMITTER = select(task_specs.c.submitter).where(task_specs.c.seq == _c.seq).scalar_subquery()


_needed = Prepared(
    select(_c.seq, _c.id, _c.status, _c.room, _SUBMITTER, _c.job_name, _c.run_id, _c.lane, _c.telling)
    .where(is_among(_c.id, "ids"))
    .order_by(_c.seq)
    .with_for_update(of=tasks)
)


async def tasks_needed(tx: Tx, ids: Collection[TaskId]) -> dict[TaskId, Needed]:
    """Return the tasks that exist, without payloads and results, locked so that they can't end before the commit."""
    rows = await _needed.rows(tx, ids=ids)
    found = (Needed(seq, TaskId(str(id_)), STATUS[status], *rest) for seq, id_, status, *rest in rows)
    return {one.id: one for one in found}


_edges = Prepared(
    select(_e.task_seq, _e.needs_seq, _c.id, _c.status, _e.met)
    .join_from(task_dependencies, tasks, is_same(_c.seq, _e.needs_seq))
    .where(is_among(_e.task_seq, "seqs"))
)


async def edges_of(tx: Tx, seqs: Collection[int]) -> dict[int, list[EdgeStatus]]:
    """Return by task the edges to what it depends on.

    Those tasks are not locked: when they change, the dependent tasks are updated again.
    """
    found: dict[int, list[EdgeStatus]] = {seq: [] for seq in seqs}
    for seq, needs, id_, status, met in await _edges.rows(tx, seqs=seqs):
        found[seq].append(EdgeStatus(needs, TaskId(str(id_)), STATUS[status], bool(met)))
    return found


_NEWS = (
    select(_c.seq, _c.id, _c.status, _c.telling)
    .where(text(TO_TELL))
    .order_by(_c.seq)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)


async def tasks_to_tell(tx: Tx, most: int) -> list[Ended]:
    """Return up to `most` tasks whose dependent tasks have yet to be updated, oldest first."""
    rows = await tx.connection.execute(_NEWS, {"most": most})
    return [Ended(seq, TaskId(str(id_)), STATUS[status], telling) for seq, id_, status, telling in rows]


_WAITERS = (
    "SELECT task_seq, met FROM task_dependencies WHERE needs_seq = {needs} AND task_seq > {told}"
    " ORDER BY task_seq LIMIT {most}"
)
_SQLITE_WAITERS = _WAITERS.format(needs="?", told="?", most="?")
_PG_WAITERS = """
SELECT d.seq, e.task_seq, e.met FROM unnest($1::bigint[], $2::bigint[]) AS d (seq, told)
 CROSS JOIN LATERAL ({}) AS e
""".format(_WAITERS.format(needs="d.seq", told="d.told", most="$3::int"))


async def waiters_of(tx: Tx, told: Sequence[tuple[int, int]], each: int) -> list[Waiter]:
    """Return up to `each` dependent tasks of each task after the last updated one; `told` has (task, that one)."""
    if not told:
        return []
    if tx.dialect == "sqlite":
        return [
            Waiter(needs, seq, bool(met))
            for needs, last in told
            for seq, met in tx.inline.fetch(_SQLITE_WAITERS, (needs, last, each))
        ]
    seqs, lasts = zip(*told, strict=True)
    rows = await tx.direct.fetch(_PG_WAITERS, (list(seqs), list(lasts), each))
    return [Waiter(needs, seq, met) for needs, seq, met in rows]


_AMONG = is_among(_c.seq, "seqs")
_free = Prepared(
    select(_c.seq, _c.status, _c.target_num).where(_AMONG).order_by(_c.seq).with_for_update(skip_locked=True)
)
_whole = Prepared(select_tasks().where(_AMONG).order_by(_c.seq))


async def free_waiters(tx: Tx, seqs: Collection[int]) -> tuple[set[int], list[Task]]:
    """Lock the tasks that are not locked by another server, nor their targets; return all and the waiting ones."""
    rows = await _free.rows(tx, seqs=seqs)
    targets = await free_targets(tx, {target for _, _, target in rows if target is not None})
    free = {seq: status for seq, status, target in rows if target is None or target in targets}
    waiting = [seq for seq, status in free.items() if status in _WAITING]
    return set(free), WHOLE.of(tx.dialect, await _whole.rows(tx, seqs=waiting))


_WAITING = frozenset({Status.BLOCKED, Status.PAUSED})
"""The statuses in which a task may wait for another one."""


# What is written


async def insert_edges(tx: Tx, new: Sequence[Edge]) -> None:
    """Insert edges between existing tasks."""
    rows = [(edge.task_seq, edge.needs_seq, edge.met, orjson.dumps(edge.places).decode()) for edge in new]
    await insert_tuples(tx, task_dependencies, ("task_seq", "needs_seq", "met", "places"), rows)


async def update_edges(tx: Tx, met: dict[tuple[int, int], bool]) -> None:
    """Write whether edges are met, by the numbers of the task and of the one that it depends on."""
    rows = [(*edge, is_met) for edge, is_met in sorted(met.items())]
    await update_tuples(tx, task_dependencies, ("task_seq", "needs_seq"), ("met",), rows)


async def write_told(tx: Tx, told: dict[int, int]) -> None:
    """Write how far the dependent tasks of each task, which is locked, have been updated."""
    await update_tuples(tx, tasks, ("seq",), ("telling",), sorted(told.items()))


_WATCH_OPEN = update(tasks).where(_AMONG, or_(_c.telling.is_(None), _c.telling > UNTOLD)).values(telling=UNTOLD)
_WATCH_ENDED = update(tasks).where(_AMONG, _c.telling.is_(None)).values(telling=TOLD)


async def watch(tx: Tx, seqs: Collection[int], *, is_open: bool) -> None:
    """Record that other tasks depend on these, which are locked; without `is_open` they have ended."""
    if seqs:
        await tx.connection.execute(_WATCH_OPEN if is_open else _WATCH_ENDED, {"seqs": seqs})


# Flows

_FLOWS = [flows.c[name] for name in Flow._fields]


async def flows_by_id(tx: Tx, ids: Collection[str]) -> dict[str, Flow]:
    """Return the flows that exist, locked so that they can't be removed before the commit."""
    if not ids:
        return {}
    statement = select(*_FLOWS).where(is_among(flows.c.id, "ids")).order_by(flows.c.id).with_for_update(read=True)
    rows = await tx.connection.execute(statement, {"ids": ids})
    return {flow.id: flow for flow in (Flow(str(id_), *rest) for id_, *rest in rows)}


_lock_flows = Prepared(select(flows.c.id).where(is_among(flows.c.id, "ids")).order_by(flows.c.id).with_for_update())


async def delete_empty_flows(tx: Tx, ids: Collection[str]) -> None:
    """Delete the flows that have no tasks left."""
    if ids:
        if not tx.is_exclusive:
            # Lock first, in a statement of its own: a statement that has to wait for a row sees only what was committed
            # before it began.
            await _lock_flows.rows(tx, ids=ids)
        of_flow = select(_c.seq).where(_c.flow_id == flows.c.id).correlate(flows)
        empty = delete(flows).where(is_among(flows.c.id, "ids"), ~exists(of_flow))
        await tx.connection.execute(empty, {"ids": ids})
