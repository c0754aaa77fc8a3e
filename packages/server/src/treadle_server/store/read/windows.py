"""Windows of the task list that observers look at, in the orders of docs/protocol.md.

A window is filled from one segment of its order after the other. Pending tasks are read along the queue's index, lane
by lane, so that nothing is sorted but the few candidates. A window that hangs on a place is read from there on, or from
there back, wherever in the list that is: what stands before it is never read, and counted only up to a cap.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, false, func, literal, or_, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.frames import Window
from treadle.wire.status import LEASED
from treadle_server.domain.tasks import Task
from treadle_server.store.read import counts, filters
from treadle_server.store.read.orders import ALL, ORDERS, PENDING, Place, Segment, place, place_of
from treadle_server.store.tables import lanes, tasks
from treadle_server.store.transaction.load import to_task

PARTS_AT_ONCE = 480
"""Ranges of the queue's index that one statement reads; SQLite admits 500 parts of a union."""


async def anchor(connection: AsyncConnection, wanted: Window) -> Place | None:
    """Return the place on which the window hangs, as it is now; None for the head of the list."""
    return await place(connection, wanted.order, wanted.first or wanted.after or wanted.before)


async def window(connection: AsyncConnection, wanted: Window, at: Place | None = None) -> list[Task]:
    """Return the tasks of the window in its order, from its anchor `at`; without one, from the head of the list."""
    backward = at is not None and wanted.before is not None
    reader = _Reader(connection, wanted, await filters.conditions(connection, wanted.filter), backward=backward)
    for number, segment in _segments(wanted, backward=backward):
        if at is not None and (number > at.segment if backward else number < at.segment):
            continue
        await reader.take(segment, at.values if at is not None and number == at.segment else None)
        if reader.is_full:
            break
    return reader.found[::-1] if backward else reader.found


def _segments(wanted: Window, *, backward: bool = False) -> list[tuple[int, Segment]]:
    """Return the segments of the window's order that its filter admits, with their numbers."""
    statuses = ALL if wanted.filter.status is None else frozenset(wanted.filter.status)
    found = [(i, segment) for i, segment in enumerate(ORDERS[wanted.order]) if segment.statuses & statuses]
    return found[::-1] if backward else found


async def ahead_of(
    connection: AsyncConnection, wanted: Window, at: Place | None, found: Sequence[Task], total: int
) -> tuple[int, bool]:
    """Return how many matching tasks stand before the window `found`, and whether counting stopped at the cap.

    `total` is how many match in all: of a window without an anchor everything is known by it and the offset.
    """
    if at is None:
        return (wanted.offset if found else min(wanted.offset, total)), False
    if found:
        at = place_of(found[0], wanted.order)
    elif wanted.before is not None:
        return 0, False
    # Behind the last one that matches there is nothing, and it stands before that itself.
    return await ahead(connection, wanted, at, inclusive=not found and wanted.after is not None)


async def ahead(connection: AsyncConnection, wanted: Window, at: Place, *, inclusive: bool = False) -> tuple[int, bool]:
    """Return how many matching tasks stand before the place, with `inclusive` there too.

    The other one says whether counting stopped at `filters.COUNT_CAP`.
    """
    cap, found = filters.COUNT_CAP, 0
    where = await filters.conditions(connection, wanted.filter)
    for number, segment in _segments(wanted):
        if number > at.segment:
            break
        bounds = _within(segment, where)
        most = cap + 1 - found
        if number < at.segment:
            found += await _count(connection, select(tasks.c.seq).where(*bounds).limit(most))
        elif segment is PENDING and not where.is_narrow:
            ranges = segment.ranges(at.values, backward=True, inclusive=inclusive)
            async for union in _queue(connection, wanted.filter.job, bounds, ranges, most, backward=True):
                found += await _count(connection, union.limit(most))
        else:
            before = segment.beyond(at.values, backward=True, inclusive=inclusive)
            found += await _count(connection, select(tasks.c.seq).where(*bounds, before).limit(most))
        if found > cap:
            break
    return min(found, cap), found > cap


def _within(segment: Segment, where: filters.Where) -> list[ColumnElement[bool]]:
    if segment.statuses == ALL:
        return [*where]
    if where.is_narrow:
        return where.and_status(segment.statuses)
    found = [*where, filters.status_is(*segment.statuses)]
    return filters.among_leased(found) if segment.statuses <= LEASED else found


async def _count(connection: AsyncConnection, limited: Any) -> int:
    return (await connection.execute(select(func.count()).select_from(limited.subquery()))).scalar_one()


async def _queue(
    connection: AsyncConnection,
    job: str | None,
    where: Sequence[ColumnElement[bool]],
    ranges: Sequence[ColumnElement[bool]],
    most: int,
    *,
    backward: bool,
) -> AsyncIterator[CompoundSelect[Any]]:
    """Return statements that read up to `most` pending tasks of each lane and range along the queue's index."""
    parts = [
        select(_head(lane, blocked, [*where, bound], most, backward=backward).subquery())
        for lane in await _lanes_with_pending(connection, job)
        for blocked in (false(), true())
        for bound in ranges or [true()]
    ]
    for start in range(0, len(parts), PARTS_AT_ONCE):
        yield union_all(*parts[start : start + PARTS_AT_ONCE])


class _Reader:
    """Fills a window from one segment after the other, forward or backward."""

    def __init__(self, connection: AsyncConnection, wanted: Window, where: filters.Where, *, backward: bool) -> None:
        self.found: list[Task] = []
        self._connection = connection
        self._wanted = wanted
        self._where = where
        self._backward = backward
        self._limit = wanted.limit
        self._offset = wanted.offset

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self._limit

    async def take(self, segment: Segment, place: tuple[Any, ...] | None) -> None:
        """Read on in the segment, from the place on if there is one."""
        where = _within(segment, self._where)
        missing = self._limit - len(self.found)
        if segment is PENDING and not self._where.is_narrow:
            rows = await self._pending(where, self._ranges(segment, place), missing)
        else:
            if place is not None:
                where.append(segment.beyond(place, backward=self._backward, inclusive=self._wanted.first is not None))
            order = segment.order(backward=self._backward)
            rows = await self._rows(select(tasks).where(*where).order_by(*order), missing)
        if rows:
            self._offset = 0
            self.found += rows
        elif self._offset:
            await self._pass_over(segment, where, place)

    async def _pass_over(
        self, segment: Segment, where: list[ColumnElement[bool]], place: tuple[Any, ...] | None
    ) -> None:
        """Note that the offset lies behind this segment: the rest of it counts in the next."""
        bound = [] if place is None else [or_(*self._ranges(segment, place))]
        counted = select(func.count()).select_from(tasks).where(*where, *bound)
        self._offset -= min(self._offset, (await self._connection.execute(counted)).scalar_one())

    def _ranges(self, segment: Segment, place: tuple[Any, ...] | None) -> list[ColumnElement[bool]]:
        if place is None:
            return []
        return segment.ranges(place, backward=self._backward, inclusive=self._wanted.first is not None)

    async def _rows(self, statement: Select[Any], limit: int) -> list[Task]:
        limited = statement.limit(limit).offset(self._offset)
        return [to_task(row) for row in await self._connection.execute(limited)]

    async def _pending(
        self, where: list[ColumnElement[bool]], ranges: list[ColumnElement[bool]], limit: int
    ) -> list[Task]:
        """Read the head of each lane along the index and merge them."""
        most = limit + self._offset
        keys: list[tuple[Any, ...]] = []
        job = self._wanted.filter.job
        async for union in _queue(self._connection, job, where, ranges, most, backward=self._backward):
            keys += [tuple(row) for row in await self._connection.execute(union)]
        keys.sort(reverse=self._backward)
        seqs = [seq for _, _, seq in keys[self._offset : most]]
        if not seqs:
            return []
        rows = await self._connection.execute(select(tasks).where(tasks.c.seq.in_(seqs)))
        by_seq = {task.seq: task for task in map(to_task, rows)}
        return [by_seq[seq] for seq in seqs if seq in by_seq]


def _head(
    lane: int, blocked: Any, where: Sequence[ColumnElement[bool]], most: int, *, backward: bool = False
) -> Select[Any]:
    return (
        select((-tasks.c.priority).label("behind"), tasks.c.due_at, tasks.c.seq)
        .where(tasks.c.lane == literal(lane), tasks.c.blocked == blocked, *where)
        .order_by(*PENDING.order(backward=backward))
        .limit(most)
    )


async def _lanes_with_pending(connection: AsyncConnection, job: str | None) -> list[int]:
    source = counts.counted(connection.dialect.name)
    statement = select(source.c.lane).where(source.c.status == "pending", source.c.n > 0).distinct()
    if job is not None:
        num = await filters.job_num(connection, job)
        statement = statement.join(lanes, lanes.c.id == source.c.lane).where(lanes.c.job_num == num)
    return sorted((await connection.execute(statement)).scalars())
