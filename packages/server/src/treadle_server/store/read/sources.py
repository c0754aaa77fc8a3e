"""Where the parts of a window come from: which index is walked for a segment, and the queue's own, lane by lane."""

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
"""Ranges of the queue's index that one statement reads; SQLite admits 500 parts of a union."""


@dataclass(frozen=True, slots=True)
class Source:
    """The matching tasks of a segment that are not in line."""

    where: filters.Where
    beyond: Sequence[ColumnElement[bool]]
    order: Sequence[Any]
    walk: Walk | None
    """What is looked through; None: all that `where` names."""
    in_order: bool = True
    """Whether the walk goes in the segment's order."""

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
        """Return what the segment has of the filter, of whose conditions `where` is; `beyond` is from where on."""
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
            # Along the index of what is due, whichever job's it is.
            due = status_in(Status.SCHEDULED)
            return cls(within, (), order, Walk((due, *beyond), order, walks.LOOKED_THROUGH))
        return cls(within, beyond, order, within.walk(), in_order=False)

    def far(self) -> "Source":
        """Return the same, of which more is looked through where that ends with the page: `walks.LOOKED_FAR`."""
        if self.walk is None or not self.in_order:
            return self
        return replace(self, walk=replace(self.walk, most=walks.LOOKED_FAR))

    def tasks(self, *, limit: int, offset: int) -> Select[Any]:
        """Return up to `limit` tasks in order, as lists show them, behind the first `offset`."""
        statement = listed().order_by(*self.order)
        if self.walk is None:
            return statement.where(*self.where, *self.beyond).limit(limit).offset(offset)
        if self.in_order:
            those = self.walk.those(self._asked, limit=limit, offset=offset)
        else:
            those = self.walk.ordered(self._asked, self.order, limit=limit, offset=offset)
        return statement.where(is_found_by(tasks.c.seq, those))

    def seqs(self, *, limit: int) -> Select[Any]:
        """Return the numbers of up to `limit` of them."""
        if self.walk is None:
            return select(tasks.c.seq).where(*self.where, *self.beyond).limit(limit)
        return self.walk.those(self._asked, limit=limit)

    @property
    def _asked(self) -> Asked:
        return Asked([*self.where.beside_index, *self.beyond])

    async def is_cut(self, connection: AsyncConnection) -> bool:
        """Return whether there are tasks that were not looked at."""
        return self.walk is not None and await self.walk.end(connection) is not None


class LineRange(NamedTuple):
    """A part of the line: a condition on the queue's index, and of which priorities it has tasks."""

    condition: ColumnElement[bool]
    admits: Callable[[int], bool]


WHOLE_LINE: tuple[LineRange, ...] = (LineRange(true(), lambda _: True),)
"""The line from its head to its end."""


def line_beyond(values: tuple[Any, ...], *, backward: bool, inclusive: bool = False) -> tuple[LineRange, ...]:
    """Return the parts of the line that stand behind a place, with `backward` before it.

    `values` is the place as `PENDING` has it; `inclusive` admits the task that stands there.
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
    """Return what the pair of a task's `due_at` and `seq` is compared with: the order within a priority."""
    return tuple_(literal(due_at, tasks.c.due_at.type), literal(seq, tasks.c.seq.type))


class QueueWalk:
    """The matching tasks in line: the keys of each lane's and range's first ones along the queue's index."""

    def __init__(self, parts: Sequence[Walk], longer: AbstractSet[int], asked: Asked) -> None:
        self._parts = parts
        self._longer = longer
        """Which of them may have more than are looked through."""
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
        """Return what is in line, of the job or of all; each lane and range is looked through for `most` of them.

        Where more is asked of them than their place each is looked through for its share of `walks.LOOKED_THROUGH`.
        """
        waiting = await _waiting(connection, job, ranges)
        asked = Asked(where.beside_line)
        # Where nothing is asked of them the first ones are those that are sought.
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
        """Yield statements that read up to `most` tasks of each part: its place, priority, when it is due, number."""
        keys = [name for name, _ in PENDING.by]
        yield from unions(walk.those(self._asked, limit=most, keys=keys) for walk in self._parts)

    async def is_cut(self, connection: AsyncConnection, full: AbstractSet[int] = frozenset()) -> bool:
        """Return whether there are tasks in line that were not looked at, but in the parts that are `full`."""
        for union in unions(self._parts[place].behind() for place in sorted(self._longer - full)):
            if (await connection.execute(union.limit(1))).first() is not None:
                return True
        return False


def unions(parts: Iterable[Select[Any]]) -> Iterator[CompoundSelect[Any]]:
    """Yield statements that read the parts, as many at once as SQLite admits; each row begins with its part's place."""
    named = [select(literal_column(str(place)).label("part"), part.subquery()) for place, part in enumerate(parts)]
    for start in range(0, len(named), PARTS_AT_ONCE):
        yield union_all(*named[start : start + PARTS_AT_ONCE])


async def _waiting(
    connection: AsyncConnection, job: str | None, ranges: Sequence[LineRange]
) -> list[tuple[int, int, ColumnElement[bool]]]:
    """Return in which lanes how many wait in which range, where there are any, of one job or of all."""
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
