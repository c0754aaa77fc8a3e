"""Sources of a window's tasks: the index that is walked for a segment, and the queue's own index, lane by lane."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    and_,
    false,
    func,
    literal,
    literal_column,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle.wire.status import LEASED, Status
from treadle_server.store.bound_lists import NUMBER, is_found_by, rows_of
from treadle_server.store.read import counts, filters, walks
from treadle_server.store.read.few import few
from treadle_server.store.read.orders import ALL, PENDING, Segment
from treadle_server.store.read.shown import listed
from treadle_server.store.read.walks import Asked, Walk
from treadle_server.store.tables import status_in, tasks


@dataclass(frozen=True, slots=True)
class Source:
    """The matching tasks of a segment, other than pending ones read from the queue."""

    where: filters.Where
    beyond: Sequence[ColumnElement[bool]]
    order: Sequence[Any]
    walk: Walk | None
    """The candidates to look through; None means all that satisfy `where`."""
    in_order: bool = True
    """Whether the walk is in the segment's order."""

    @classmethod
    async def of(
        cls,
        connection: AsyncConnection,
        wanted: TaskFilter,
        where: filters.Where,
        segment: Segment,
        beyond: Sequence[ColumnElement[bool]],
        *,
        backward: bool,
    ) -> "Source":
        """Return the source of a filter's tasks in a segment, by conditions `where` and, on the place, `beyond`."""
        order = segment.order(backward=backward)
        if segment.statuses == ALL:
            within = where
        elif where.is_short:
            within = where.and_status(segment.statuses)
        else:
            meant = segment.statuses.intersection(ALL if wanted.status is None else wanted.status)
            num = None if wanted.job is None else await filters.job_num(connection, wanted.job)
            named = None if segment.statuses <= LEASED else await few(connection, meant, num)
            within = where.in_segment(segment.statuses) if named is None else where.narrowed(named)
        if within.is_short:
            return cls(within, beyond, order, None)
        if [name for name, _ in segment.by] == ["seq"]:
            walk = within.walk(up=segment.by[0][1] is not backward, beyond=beyond)
            return cls(within, (), order, walk)
        if segment.statuses == {Status.SCHEDULED}:
            # Along the index of due times, whatever the job.
            due = status_in(Status.SCHEDULED)
            return cls(within, (), order, Walk((due, *beyond), order, walks.LOOKED_THROUGH))
        return cls(within, beyond, order, within.walk(), in_order=False)

    def far(self) -> "Source":
        """Return the same source, looking through `walks.LOOKED_FAR` tasks if its walk stops with the page."""
        if self.walk is None or not self.in_order:
            return self
        return replace(self, walk=replace(self.walk, most=walks.LOOKED_FAR))

    def tasks(self, *, limit: int, offset: int) -> Select[Any]:
        """Return the statement for up to `limit` tasks in order, as lists show them, after the first `offset`."""
        statement = listed().order_by(*self.order)
        if self.walk is None:
            return statement.where(*self.where, *self.beyond).limit(limit).offset(offset)
        if self.in_order:
            those = self.walk.those(self._asked, limit=limit, offset=offset)
        else:
            those = self.walk.ordered(self._asked, self.order, limit=limit, offset=offset)
        return statement.where(is_found_by(tasks.c.seq, those))

    def seqs(self, *, limit: int) -> Select[Any]:
        """Return the statement for the numbers of up to `limit` tasks."""
        if self.walk is None:
            return select(tasks.c.seq).where(*self.where, *self.beyond).limit(limit)
        return self.walk.those(self._asked, limit=limit)

    @property
    def _asked(self) -> Asked:
        return Asked([*self.where.beside_index, *self.beyond])

    async def is_cut(self, connection: AsyncConnection) -> bool:
        """Return whether there are candidates that were not looked at."""
        return self.walk is not None and await self.walk.end(connection) is not None


class LineRange(NamedTuple):
    """A part of the queue: a condition on its index, and which priorities it includes."""

    condition: ColumnElement[bool]
    admits: Callable[[int], bool]


WHOLE_LINE: tuple[LineRange, ...] = (LineRange(true(), lambda _: True),)
"""The whole queue."""


def line_beyond(values: tuple[Any, ...], *, backward: bool, inclusive: bool = False) -> tuple[LineRange, ...]:
    """Return the parts of the queue after a place, or before it with `backward`.

    `values` are those of `PENDING`'s columns at the place; `inclusive` admits the task at the place itself.
    """
    priority, due_at, seq = values
    behind = (le if inclusive else lt) if backward else (ge if inclusive else gt)
    further = gt if backward else lt
    within = and_(tasks.c.priority == priority, behind(tuple_(tasks.c.due_at, tasks.c.seq), due_pair(due_at, seq)))
    return (
        LineRange(within, lambda one: one == priority),
        LineRange(further(tasks.c.priority, priority), lambda one: further(one, priority)),
    )


def due_pair(due_at: datetime, seq: int) -> ColumnElement[Any]:
    """Return a pair to compare with a task's (`due_at`, `seq`): the order within a priority."""
    return tuple_(literal(due_at, tasks.c.due_at.type), literal(seq, tasks.c.seq.type))


class _Part(NamedTuple):
    """A range of the queue's index in some lanes: of the tasks that are blocked, or of the others."""

    walk: Walk
    """The tasks of one of the lanes (`_LANE`)."""
    lanes: Sequence[int]
    longer: Collection[int]
    """The lanes that may have more tasks than are looked through."""


_LANE: ColumnElement[int] = literal_column("value.value", NUMBER)
"""The lane of a row of `rows_of`."""

_queued = tasks.alias("queued")

QueueKey = tuple[tuple[int, int], tuple[int, datetime, int]]
"""The index of a task's part and its lane; and its priority, due time and number."""


class QueueWalk:
    """The matching pending tasks: the keys of the first ones of each lane and range, along the queue's index.

    The lanes are bound as lists, so that the statement is the same for any number of them. With a subquery for each
    lane, a window of 5,000 lanes took 3 s on SQLite and 6 on PostgreSQL, most of it in SQLAlchemy.
    """

    def __init__(self, parts: Sequence[_Part], asked: Asked, *, backward: bool) -> None:
        self._parts = parts
        self._asked = asked
        self._backward = backward
        self._given = {f"lanes{place}": part.lanes for place, part in enumerate(parts)}

    @classmethod
    async def of(
        cls,
        connection: AsyncConnection,
        job: str | None,
        where: filters.Where,
        ranges: Sequence[LineRange],
        most: int,
        *,
        backward: bool,
    ) -> "QueueWalk":
        """Return the pending tasks of a job or of all; up to `most` are read of each lane and range.

        With conditions beyond job and status, each lane and range is looked through up to its share of
        `walks.LOOKED_THROUGH`.
        """
        waiting = await _waiting(connection, job, ranges)
        asked = Asked(where.beside_line)
        # Without further conditions the first tasks are the ones to find.
        share = walks.LOOKED_THROUGH // max(1, 2 * sum(map(len, waiting)))
        each = max(1, share) if asked.conditions else most
        order = PENDING.order(backward=backward)
        parts = []
        for within, lanes in zip(ranges, waiting, strict=True):
            longer = {lane for lane, n in lanes.items() if asked.conditions and n > each}
            for blocked in (false(), true()):
                at = (tasks.c.lane == _LANE, status_in(Status.PENDING), tasks.c.blocked == blocked)
                parts.append(_Part(Walk((*at, within.condition), order, each), sorted(lanes), longer))
        return cls(parts, asked, backward=backward)

    async def keys(self, connection: AsyncConnection, most: int) -> list[QueueKey]:
        """Return the keys of the tasks in order: up to `most` of each part and lane, without conditions of all."""
        keys = self._keys(most).subquery()
        by = [keys.c[name].desc() if up is self._backward else keys.c[name] for name, up in PENDING.by]
        statement = select(keys).order_by(*by).limit(None if self._asked.conditions else most)
        rows = await connection.execute(statement, self._given)
        return [((part, lane), (priority, due_at, seq)) for part, lane, priority, due_at, seq in rows]

    async def count(self, connection: AsyncConnection, most: int) -> int:
        """Return how many tasks there are, up to `most`."""
        those = self._keys(most).limit(most).subquery()
        return (await connection.execute(select(func.count()).select_from(those), self._given)).scalar_one()

    def _keys(self, most: int) -> CompoundSelect[Any]:
        arms = []
        for place, part in enumerate(self._parts):
            lanes, lane = rows_of(f"lanes{place}", NUMBER)
            those = part.walk.those(self._asked, limit=most)
            part_and_lane: list[ColumnElement[int]] = [literal_column(str(place)).label("part"), lane.label("lane")]
            found = select(*part_and_lane, *(_queued.c[name] for name, _ in PENDING.by))
            arms.append(found.select_from(lanes.join(_queued, is_found_by(_queued.c.seq, those))))
        return union_all(*arms)

    async def is_cut(self, connection: AsyncConnection, full: Collection[tuple[int, int]] = ()) -> bool:
        """Return whether there are pending tasks that were not looked at, except in the parts and lanes in `full`."""
        for place, part in enumerate(self._parts):
            if longer := [lane for lane in part.longer if (place, lane) not in full]:
                lanes, lane = rows_of("lanes", NUMBER)
                behind = select(lane).select_from(lanes).where(part.walk.behind().scalar_subquery().is_not(None))
                if (await connection.execute(behind.limit(1), {"lanes": longer})).first() is not None:
                    return True
        return False


async def _waiting(connection: AsyncConnection, job: str | None, ranges: Sequence[LineRange]) -> list[dict[int, int]]:
    """Return for each range the number of pending tasks by lane, of one job or of all; empty ones may be left out."""
    num = None if job is None else await filters.job_num(connection, job)
    if ranges is WHOLE_LINE:
        return [{one.lane: one.n for one in await counts.by_lane(connection, [Status.PENDING], num)}]
    bands = await counts.in_line(connection, num)
    waiting = []
    for _, admits in ranges:
        lanes: Counter[int] = Counter()
        for priority, by_lane in bands.items():
            if admits(priority):
                lanes.update(by_lane)
        waiting.append(dict(lanes))
    return waiting
