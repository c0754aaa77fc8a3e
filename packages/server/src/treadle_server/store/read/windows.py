"""Windows of the task list, which observers watch or act on, in the orders of docs/protocol.md.

A window is filled from its order's segments in turn. Pending tasks are read along the queue's index, lane by lane, so
that only the few candidates are sorted. A window that is anchored to a place is read from there forward or backward,
wherever in the list that is: the tasks before it are never read, and counted only up to a cap. A window far from the
list's head is read from the list's end if that is nearer, and among pending tasks from a place found by `depths.py`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.errors import TaskNotFound
from treadle_server.store.read import filters, walks
from treadle_server.store.read.depths import depth
from treadle_server.store.read.orders import ALL, ORDERS, PENDING, Segment, SortKey, sort_key_of, whole_order
from treadle_server.store.read.shown import listed
from treadle_server.store.read.sources import WHOLE_LINE, QueueWalk, Source, line_beyond
from treadle_server.store.read.tasks import get
from treadle_server.store.tables import tasks
from treadle_server.store.transaction.load import to_task

FAR = 1_000
"""From this offset on a shortcut is sought: reading from the list's end, or from a key."""


async def anchor(connection: AsyncConnection, wanted: Window) -> SortKey | None:
    """Return the current place of the window's anchor; None for the head of the list.

    An anchor that does not exist, or that the user can't see, means the head of the list too.
    """
    if (named := wanted.first or wanted.after or wanted.before) is None:
        return None
    try:
        task = await get(connection, TaskId(named))
    except TaskNotFound:
        return None
    visibility = filters.visibility_of(wanted.filter)
    return sort_key_of(task, wanted.order) if visibility is None or visibility.admits(task.room) else None


class Found(list[Task]):
    """The tasks of a window."""

    is_partial: bool = False
    """Whether there may be more matches, because not all tasks were looked through (`walks.py`)."""
    reached: int | None = None
    """How many tasks the list turned out to have, if none were at the window's offset; None if there were some."""


async def window(connection: AsyncConnection, wanted: Window, at: SortKey | None = None) -> Found:
    """Return the tasks of the window in its order, from its anchor `at` or the head of the list.

    Large values are left out (`shown.py`).
    """
    mirrored = await _from_the_end(connection, wanted) if at is None else None
    if mirrored is not None and (found := await _read(connection, mirrored, None, backward=True)):
        return found
    # Reading from the end may find too few for a page; reading from the head then tells how far the list goes.
    return await _read(connection, wanted, at, backward=at is not None and wanted.before is not None)


async def _read(connection: AsyncConnection, wanted: Window, at: SortKey | None, *, backward: bool) -> Found:
    where = await _conditions(connection, wanted)
    reader = _Reader(connection, wanted, where, backward=backward)
    for number, segment in _segments(wanted, backward=backward):
        if at is not None and (number > at.segment if backward else number < at.segment):
            continue
        await reader.take(segment, at.values if at is not None and number == at.segment else None)
        if reader.is_full:
            break
    found = Found(reader.found[::-1] if backward else reader.found)
    found.is_partial = reader.is_partial
    if not found and wanted.offset:
        found.reached = reader.passed
    return found


def partial_total(wanted: Window, total: int, shown: int, reached: int | None = None) -> int:
    """Return the length to report for a list that may lack some of its `total` matches and is shown up to `shown`.

    In the order `updated` it is no longer than what is looked through, so that a jump to its end finds something. Once
    a window has found nothing at its offset, it is no longer than the `reached` number.
    """
    if reached is not None:
        return min(total, reached)
    return max(shown, min(total, walks.LOOKED_THROUGH) if wanted.order == "updated" else total)


async def _from_the_end(connection: AsyncConnection, wanted: Window) -> Window | None:
    """Return the same window counted backward from the list's end, if that is nearer; otherwise None.

    Tasks that an offset skips have to be read, even a million to show the last ones. The order `updated` has no index,
    so a list can't be read from its end.
    """
    if wanted.offset < FAR or wanted.order == "updated":
        return None
    total, is_capped = await filters.total(connection, wanted.filter)
    behind = total - wanted.offset
    if is_capped or not 0 < behind < wanted.offset:
        return None
    limit = min(wanted.limit, behind)
    return wanted.model_copy(update={"offset": behind - limit, "limit": limit})


async def _conditions(connection: AsyncConnection, wanted: Window) -> filters.Where:
    # In the order `position` each status is read separately.
    return await filters.conditions(connection, wanted.filter, names_few=len(ORDERS[wanted.order]) == 1)


def _segments(wanted: Window, *, backward: bool = False) -> list[tuple[int, Segment]]:
    """Return the segments of the window's order that its filter admits, with their indexes."""
    statuses = ALL if wanted.filter.status is None else frozenset(wanted.filter.status)
    found = [(i, segment) for i, segment in enumerate(ORDERS[wanted.order]) if segment.statuses & statuses]
    return found[::-1] if backward else found


async def ahead_of(
    connection: AsyncConnection, wanted: Window, at: SortKey | None, found: Sequence[Task], total: int
) -> tuple[int, bool]:
    """Return how many matching tasks come before the window `found`, and whether counting stopped at the cap.

    For a window without an anchor the offset and `total`, the number of all matches, tell the answer.
    """
    if at is None:
        return (wanted.offset if found else min(wanted.offset, total)), False
    if found:
        at = sort_key_of(found[0], wanted.order)
    elif wanted.before is not None:
        return 0, False
    # The window after the last match is empty; the anchor itself comes before it.
    return await ahead(connection, wanted, at, inclusive=not found and wanted.after is not None)


async def ahead(
    connection: AsyncConnection, wanted: Window, at: SortKey, *, inclusive: bool = False
) -> tuple[int, bool]:
    """Return how many matching tasks come before the place, or at it with `inclusive`.

    The second value tells whether counting stopped early: at `filters.COUNT_CAP`, or after looking through enough.
    """
    cap, found = filters.COUNT_CAP, 0
    where = await _conditions(connection, wanted)
    for number, segment in _segments(wanted):
        if number > at.segment:
            break
        most = cap + 1 - found
        is_within = number == at.segment
        if segment is PENDING and not where.is_narrow:
            ranges = line_beyond(at.values, backward=True, inclusive=inclusive) if is_within else WHOLE_LINE
            queue = await QueueWalk.of(connection, wanted.filter.job, where, ranges, most, backward=True)
            counted = await queue.count(connection, most)
            is_cut = counted < most and await queue.is_cut(connection)
        else:
            before = [segment.beyond(at.values, backward=True, inclusive=inclusive)] if is_within else []
            source = await Source.of(connection, wanted.filter, where, segment, before, backward=True)
            counted = await walks.count(connection, source.seqs(limit=most))
            is_cut = counted < most and await source.is_cut(connection)
        found += counted
        if found > cap or is_cut:
            return min(found, cap), True
    return found, False


class _Reader:
    """Fills a window from its segments in turn, forward or backward."""

    def __init__(self, connection: AsyncConnection, wanted: Window, where: filters.Where, *, backward: bool) -> None:
        self.found: list[Task] = []
        self.is_partial = False
        self._connection = connection
        self._wanted = wanted
        self._where = where
        self._backward = backward
        self._limit = wanted.limit
        self._offset = wanted.offset
        self.passed = 0
        """How many tasks were skipped for the offset."""

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self._limit

    async def take(self, segment: Segment, sort_key: tuple[Any, ...] | None) -> None:
        """Read more tasks from a segment, from the place on if there is one."""
        missing = self._limit - len(self.found)
        if segment is PENDING and not self._where.is_narrow:
            rows, passed = await self._pending(sort_key, missing)
        else:
            rows, passed = await self._others(segment, sort_key, missing)
        self._offset -= min(self._offset, passed)
        self.passed = self._wanted.offset - self._offset
        self.found += rows

    async def _others(self, segment: Segment, sort_key: tuple[Any, ...] | None, limit: int) -> tuple[list[Task], int]:
        """Read from a segment other than the queue; return the tasks and how many were skipped."""
        beyond: list[ColumnElement[bool]] = []
        if sort_key is not None:
            beyond.append(segment.beyond(sort_key, backward=self._backward, inclusive=self._wanted.first is not None))
        source = await Source.of(
            self._connection, self._wanted.filter, self._where, segment, beyond, backward=self._backward
        )
        if self._offset >= FAR and not self._where.beside_line:
            source = source.far()
        rows = [to_task(row) for row in await self._connection.execute(source.tasks(limit=limit, offset=self._offset))]
        if len(rows) < limit or not source.in_order:
            self.is_partial = self.is_partial or await source.is_cut(self._connection)
        if rows or not self._offset:
            return rows, self._offset
        return [], await walks.count(self._connection, source.seqs(limit=self._offset))

    async def _pending(self, sort_key: tuple[Any, ...] | None, limit: int) -> tuple[list[Task], int]:
        """Read the first tasks of each lane along the index and merge them; return them and how many were skipped."""
        job = self._wanted.filter.job
        if sort_key is None and self._offset >= FAR and not self._where.beside_line:
            num = None if job is None else await filters.job_num(self._connection, job)
            sort_key, passed = await depth(self._connection, num, self._offset, backward=self._backward)
            if sort_key is None:
                return [], passed
            self._offset -= passed
        is_first = self._wanted.first is not None
        ranges = WHOLE_LINE
        if sort_key is not None:
            ranges = line_beyond(sort_key, backward=self._backward, inclusive=is_first)
        most = limit + self._offset
        queue = await QueueWalk.of(self._connection, job, self._where, ranges, most, backward=self._backward)
        found = await queue.keys(self._connection, most)
        of_lane = Counter(lane for lane, _ in found)
        full = {lane for lane, n in of_lane.items() if n == most}
        self.is_partial = self.is_partial or await queue.is_cut(self._connection, full)
        seqs = [seq for _, (_, _, seq) in found[self._offset : most]]
        if not seqs:
            return [], len(found)
        rows = await self._connection.execute(listed().where(tasks.c.seq.in_(seqs)))
        by_seq = {task.seq: task for task in map(to_task, rows)}
        return [by_seq[seq] for seq in seqs if seq in by_seq], self._offset


async def freeze(
    connection: AsyncConnection, wanted: TaskFilter, *, order: str, limit: int
) -> tuple[Sequence[Any], bool]:
    """Return up to `limit` matching tasks in the order, as rows of `FrozenTask`'s fields, and whether there are more.

    A single statement reads one moment's list, so no task is missed or repeated because it moves meanwhile.
    """
    where = await filters.conditions(connection, wanted)
    columns = (tasks.c.id, tasks.c.version, tasks.c.status, tasks.c.job_name)
    by = whole_order(order)
    statement = select(*columns).where(*where.first(limit + 1, by)).order_by(*by).limit(limit + 1)
    found = (await connection.execute(statement)).all()
    return found[:limit], len(found) > limit
