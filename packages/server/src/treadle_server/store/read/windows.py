"""Windows of the task list that observers look at, in the orders of docs/protocol.md.

The order `position` is made of segments, read one behind the other until the window is full: what runs, what is
pending, what is scheduled, what is paused, the rest. Pending tasks are read along the queue's index, lane by lane, so
that nothing is sorted but the few candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, func, literal, or_, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.frames import Window
from treadle.wire.ids import TaskId
from treadle.wire.status import LEASED, TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.errors import TaskNotFound
from treadle_server.store.load import to_task
from treadle_server.store.read import counts, filters
from treadle_server.store.read.tasks import get
from treadle_server.store.tables import lanes, tasks

LANES_AT_ONCE = 100
"""Lanes read in one statement; SQLite admits 500 parts of a union."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the list: which statuses, and by which columns it is ordered, up or down."""

    statuses: frozenset[Status]
    by: tuple[tuple[str, bool], ...]
    """(column, ascending)."""

    def order(self) -> list[Any]:
        """Return the ORDER BY."""
        return [tasks.c[name].asc() if up else tasks.c[name].desc() for name, up in self.by]

    def behind(self, anchor: Task) -> ColumnElement[bool]:
        """Return the condition that a task comes after `anchor` in this segment."""
        parts: list[ColumnElement[bool]] = []
        equal: list[ColumnElement[bool]] = []
        for name, up in self.by:
            column, value = tasks.c[name], getattr(anchor, name)
            parts.append(and_(*equal, column > value if up else column < value))
            equal.append(column == value)
        return or_(*parts)


_ALL = frozenset(Status)
_PENDING = Segment(frozenset({Status.PENDING}), (("priority", False), ("due_at", True), ("seq", True)))
_ORDERS: dict[str, tuple[Segment, ...]] = {
    "newest": (Segment(_ALL, (("seq", False),)),),
    "oldest": (Segment(_ALL, (("seq", True),)),),
    "updated": (Segment(_ALL, (("updated_at", False), ("seq", False))),),
    "position": (
        Segment(LEASED, (("claimed_at", True), ("seq", True))),
        _PENDING,
        Segment(frozenset({Status.SCHEDULED}), (("due_at", True), ("seq", True))),
        Segment(frozenset({Status.PAUSED}), (("seq", False),)),
        Segment(TERMINAL, (("seq", False),)),
    ),
}


async def window(connection: AsyncConnection, wanted: Window) -> list[Task]:
    """Return the tasks of the window in its order; an `after` that is gone starts at the head."""
    reader = _Reader(connection, wanted, await filters.conditions(connection, wanted.filter))
    statuses = _ALL if wanted.filter.status is None else frozenset(wanted.filter.status)
    segments = [segment for segment in _ORDERS[wanted.order] if segment.statuses & statuses]
    anchor = await _anchor(connection, wanted.after)
    if anchor is not None:
        passed = next((i for i, s in enumerate(segments) if anchor.status in s.statuses), 0)
        segments = segments[passed:]
    for segment in segments:
        bound = segment.behind(anchor) if anchor is not None and anchor.status in segment.statuses else None
        await reader.take(segment, bound)
        if reader.is_full:
            break
    return reader.found


async def _anchor(connection: AsyncConnection, after: str | None) -> Task | None:
    if after is None:
        return None
    try:
        return await get(connection, TaskId(after))
    except TaskNotFound:
        return None


class _Reader:
    """Fills a window from one segment after the other."""

    def __init__(self, connection: AsyncConnection, wanted: Window, where: list[ColumnElement[bool]]) -> None:
        self.found: list[Task] = []
        self._connection = connection
        self._wanted = wanted
        self._where = where
        self._limit = wanted.limit
        self._offset = wanted.offset

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self._limit

    async def take(self, segment: Segment, bound: ColumnElement[bool] | None) -> None:
        where = list(self._where)
        if segment.statuses != _ALL:
            where.append(filters.status_is(*segment.statuses))
        if bound is not None:
            where.append(bound)
        missing = self._limit - len(self.found)
        if segment is _PENDING:
            rows = await self._pending(where, missing)
        else:
            rows = await self._rows(select(tasks).where(*where).order_by(*segment.order()), missing)
        if rows:
            self._offset = 0
            self.found += rows
        elif self._offset:
            # The offset lies behind this segment: the rest of it counts in the next.
            counted = select(func.count()).select_from(tasks).where(*where)
            self._offset -= min(self._offset, (await self._connection.execute(counted)).scalar_one())

    async def _rows(self, statement: Select[Any], limit: int) -> list[Task]:
        limited = statement.limit(limit).offset(self._offset)
        return [to_task(row) for row in await self._connection.execute(limited)]

    async def _pending(self, where: list[ColumnElement[bool]], limit: int) -> list[Task]:
        """Read the head of each lane along the index and merge them."""
        ids = await _lanes_with_pending(self._connection, self._wanted.filter.job)
        most = limit + self._offset
        keys: list[tuple[Any, ...]] = []
        for start in range(0, len(ids), LANES_AT_ONCE):
            heads = [
                select(_head(lane, blocked, where, most).subquery())
                for lane in ids[start : start + LANES_AT_ONCE]
                for blocked in (false(), true())
            ]
            keys += [tuple(row) for row in await self._connection.execute(union_all(*heads))]
        keys.sort()
        seqs = [seq for _, _, seq in keys[self._offset : most]]
        if not seqs:
            return []
        rows = await self._connection.execute(select(tasks).where(tasks.c.seq.in_(seqs)))
        by_seq = {task.seq: task for task in map(to_task, rows)}
        return [by_seq[seq] for seq in seqs if seq in by_seq]


def _head(lane: int, blocked: Any, where: Sequence[ColumnElement[bool]], most: int) -> Select[Any]:
    return (
        select((-tasks.c.priority).label("behind"), tasks.c.due_at, tasks.c.seq)
        .where(tasks.c.lane == literal(lane), tasks.c.blocked == blocked, *where)
        .order_by(tasks.c.priority.desc(), tasks.c.due_at, tasks.c.seq)
        .limit(most)
    )


async def _lanes_with_pending(connection: AsyncConnection, job: str | None) -> list[int]:
    source = counts.counted(connection.dialect.name)
    statement = select(source.c.lane).where(source.c.status == "pending", source.c.n > 0).distinct()
    if job is not None:
        num = await filters.job_num(connection, job)
        statement = statement.join(lanes, lanes.c.id == source.c.lane).where(lanes.c.job_num == num)
    return sorted((await connection.execute(statement)).scalars())
