"""Sources of a window's tasks: the index that is walked for a segment, and the queue's own index, lane by lane."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
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
from treadle_server.store.bound_lists import is_found_by
from treadle_server.store.read import counts, filters, walks
from treadle_server.store.read.few import few
from treadle_server.store.read.orders import ALL, PENDING, Segment
from treadle_server.store.read.shown import listed
from treadle_server.store.read.walks import Asked, Walk
from treadle_server.store.tables import status_in, tasks

PARTS_AT_ONCE = 480
"""Most ranges of the queue's index in one statement; SQLite allows 500 parts of a union."""


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


class QueueWalk:
    """The matching pending tasks: the keys of the first ones of each lane and range, along the queue's index."""

    def __init__(self, parts: Sequence[Walk], longer: AbstractSet[int], asked: Asked) -> None:
        self._parts = parts
        self._longer = longer
        """Which of the parts may have more tasks than are looked through."""
        self._asked = asked

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
        share = walks.LOOKED_THROUGH // max(1, 2 * len(waiting))
        each = max(1, share) if asked.conditions else most
        order = PENDING.order(backward=backward)
        parts: list[Walk] = []
        longer: set[int] = set()
        for lane, n, within in waiting:
            at = [tasks.c.lane == literal(lane), status_in(Status.PENDING)]
            own = [Walk((*at, tasks.c.blocked == blocked, within), order, each) for blocked in (false(), true())]
            if asked.conditions and n > each:
                longer |= {len(parts) + place for place in range(len(own))}
            parts += own
        return cls(parts, longer, asked)

    def unions(self, most: int) -> Iterator[CompoundSelect[Any]]:
        """Yield statements that read up to `most` tasks of each part, as (part's index, priority, due time, number)."""
        keys = [name for name, _ in PENDING.by]
        yield from unions(walk.those(self._asked, limit=most, keys=keys) for walk in self._parts)

    async def is_cut(self, connection: AsyncConnection, full: AbstractSet[int] = frozenset()) -> bool:
        """Return whether there are pending tasks that were not looked at, except in the parts that are `full`."""
        for union in unions(self._parts[place].behind() for place in sorted(self._longer - full)):
            if (await connection.execute(union.limit(1))).first() is not None:
                return True
        return False


def unions(parts: Iterable[Select[Any]]) -> Iterator[CompoundSelect[Any]]:
    """Yield statements that read the parts, as many at once as SQLite allows; each row begins with its part's index."""
    named = [select(literal_column(str(place)).label("part"), part.subquery()) for place, part in enumerate(parts)]
    for start in range(0, len(named), PARTS_AT_ONCE):
        yield union_all(*named[start : start + PARTS_AT_ONCE])


async def _waiting(
    connection: AsyncConnection, job: str | None, ranges: Sequence[LineRange]
) -> list[tuple[int, int, ColumnElement[bool]]]:
    """Return (lane, number of pending tasks, range's condition), without empty ones, of one job or of all."""
    num = None if job is None else await filters.job_num(connection, job)
    if ranges is WHOLE_LINE:
        found = await counts.by_lane(connection, [Status.PENDING], num)
        return [(one.lane, one.n, WHOLE_LINE[0].condition) for one in sorted(found)]
    bands = await counts.in_line(connection, num)
    waiting: list[tuple[int, int, ColumnElement[bool]]] = []
    for condition, admits in ranges:
        lanes: Counter[int] = Counter()
        for priority, by_lane in bands.items():
            if admits(priority):
                lanes.update(by_lane)
        waiting += [(lane, n, condition) for lane, n in sorted(lanes.items())]
    return waiting
