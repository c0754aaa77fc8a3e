"""Flows: a page of them, one with its tasks and edges, and which of its tasks a verb applies to."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
from sqlalchemy import ColumnElement, bindparam, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.flows import MOST_SHOWN_EDGES, MOST_SHOWN_TASKS
from treadle.wire.ids import TaskId
from treadle.wire.status import Reason, Status
from treadle.wire.transitions import ADMITS
from treadle_server.domain.flows import Flow
from treadle_server.domain.visibility import Visibility
from treadle_server.errors import FlowNotFound
from treadle_server.store.bound_lists import is_among, is_same
from treadle_server.store.past_runs import past_runs
from treadle_server.store.read.filters import ids_from
from treadle_server.store.read.visibility import seen_from, within
from treadle_server.store.tables import flows, task_dependencies, tasks

_c = tasks.c
_e = task_dependencies.c
_COLUMNS = [flows.c[name] for name in Flow._fields]


@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow with the counts of its tasks by status."""

    flow: Flow
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowPicture:
    """The data for drawing a flow: rows of its tasks, and edges as (task, task it depends on, names)."""

    tasks: Sequence[Any]
    ran: Mapping[int, float]
    """The total seconds of each task's finished runs, by the task's number; tasks without any are left out."""
    edges: Sequence[tuple[str, str, list[str]]]
    is_capped: bool


_COUNTS = select(_c.flow_id, _c.status, func.count()).where(is_among(_c.flow_id, "ids")).group_by(_c.flow_id, _c.status)


async def _counted(connection: AsyncConnection, found: Sequence[Flow]) -> list[FlowView]:
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for id_, status, n in await connection.execute(_COUNTS, {"ids": [flow.id for flow in found]}):
        counts[str(id_)][status] = n
    return [FlowView(flow, counts[flow.id]) for flow in found]


async def page(
    connection: AsyncConnection,
    *,
    room: str | None,
    beginning: str | None = None,
    visibility: Visibility | None,
    limit: int,
    offset: int,
) -> tuple[list[FlowView], int]:
    """Return flows of a room (None: of all that the user can read), newest first, and how many there are.

    `beginning` narrows them to ids with that prefix.
    """
    where = [within(visibility, flows.c.room), seen_from(room, flows.c.room)]
    if beginning is not None:
        where.append(flows.c.id.between(*ids_from(beginning)))
    total = (await connection.execute(select(func.count()).select_from(flows).where(*where))).scalar_one()
    statement = select(*_COLUMNS).where(*where).order_by(flows.c.created_at.desc(), flows.c.id.desc())
    rows = await connection.execute(statement.limit(limit).offset(offset))
    return await _counted(connection, [Flow(str(id_), *rest) for id_, *rest in rows]), total


async def find(connection: AsyncConnection, flow_id: str) -> FlowView:
    """Return a flow with the counts of its tasks by status. Raises `FlowNotFound`."""
    row = (await connection.execute(select(*_COLUMNS).where(flows.c.id == flow_id))).first()
    if row is None:
        raise FlowNotFound(f"there is no flow {flow_id}")
    return (await _counted(connection, [Flow(str(row[0]), *row[1:])]))[0]


MOST_ERROR = 2_000
"""Characters of each task's error in a flow's picture: in full, 2,000 errors may be 2 GB."""

_SHOWN = (
    _c.seq, _c.id, _c.job_name, _c.status, _c.reason, func.substr(_c.error, 1, MOST_ERROR).label("error"), _c.unmet,
    _c.on_dependency_failure,
    _c.created_at, _c.started_at, _c.completed_at,
)  # fmt: skip


_own, _other = tasks.alias("own"), tasks.alias("other")
_EDGES = (
    select(_own.c.id, _other.c.id, _e.places)
    .join_from(task_dependencies, _own, is_same(_own.c.seq, _e.task_seq))
    .join(_other, is_same(_other.c.seq, _e.needs_seq))
    .where(is_among(_e.task_seq, "seqs"))
    .order_by(_e.task_seq, _e.needs_seq)
    .limit(bindparam("most"))
)

_ended = past_runs(of=lambda seq: is_among(seq, "seqs"))
_TOOK: ColumnElement[Any] = literal_column("(past_runs.ended_at - past_runs.started_at)")
_RAN = select(_ended.c.task_seq, func.sum(_TOOK)).where(_ended.c.started_at.is_not(None)).group_by(_ended.c.task_seq)


def _seconds(span: Any) -> float:
    """Return the seconds of a difference of two instants: microseconds on SQLite, an interval on PostgreSQL."""
    return float(span.total_seconds() if isinstance(span, timedelta) else span / 1e6)


async def shown(connection: AsyncConnection, flow_id: str) -> FlowPicture:
    """Return the first `MOST_SHOWN_TASKS` tasks of a flow and their first `MOST_SHOWN_EDGES` edges."""
    statement = select(*_SHOWN).where(_c.flow_id == flow_id).order_by(_c.seq).limit(MOST_SHOWN_TASKS + 1)
    rows = (await connection.execute(statement)).all()
    seqs = [row.seq for row in rows[:MOST_SHOWN_TASKS]]
    found = (await connection.execute(_EDGES, {"seqs": seqs, "most": MOST_SHOWN_EDGES + 1})).all()
    edges = [
        (str(task), str(needs), sorted({name for name, _ in orjson.loads(places)}))
        for task, needs, places in found[:MOST_SHOWN_EDGES]
    ]
    ran = {seq: _seconds(span) for seq, span in await connection.execute(_RAN, {"seqs": seqs})}
    is_capped = len(rows) > MOST_SHOWN_TASKS or len(found) > MOST_SHOWN_EDGES
    return FlowPicture(rows[:MOST_SHOWN_TASKS], ran, edges, is_capped)


_MEANT = {"cancel": ADMITS["cancel"], "pause": ADMITS["pause"], "resume": frozenset({Status.PAUSED})}
"""The statuses of the tasks that a verb on a flow applies to; the verbs that run tasks again apply to failed ones."""


async def meant(connection: AsyncConnection, flow_id: str, verb: str, most: int) -> list[TaskId]:
    """Return up to `most` tasks of a flow that a verb applies to.

    Each task comes before those that it depends on, so that cancelling or pausing a task starts nothing that would be
    cancelled or paused next. For reruns, failed tasks come first, then those that were cancelled because of them.
    """
    of_flow = select(_c.id).where(_c.flow_id == flow_id)
    statuses = [status.value for status in sorted(_MEANT.get(verb, {Status.FAILED}))]
    parts = [of_flow.where(_c.status.in_(statuses)).order_by(_c.seq.desc())]
    if verb == "rerun-failed":
        cancelled = (_c.status == Status.CANCELLED.value, _c.reason == Reason.DEPENDENCY_FAILED.value)
        parts.append(of_flow.where(*cancelled).order_by(_c.seq.desc()))
    found: list[TaskId] = []
    for part in parts:
        rows = await connection.execute(part.limit(most - len(found)))
        found += [TaskId(str(id_)) for (id_,) in rows]
    return found
