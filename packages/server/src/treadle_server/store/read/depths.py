"""Find where a window deep in the queue begins, by bisection instead of reading everything before it.

The kept counts tell in which priority it begins. The rest comes from the queue's index: from each lane the entry
at the same relative depth as the window in the whole, and how many tasks come before the median of these entries. The
part that contains the window is bisected again. A single lane needs one step. A window in the middle of 1,000,000 tasks
of one lane takes 0.2 s on both databases; reading the keys of all before it into Python took 3 s, and 2 s of other
work. Among more than `MOST_BISECTED` lanes the database sorts the tasks of the priority instead.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, false, func, literal, literal_column, or_, select, true, tuple_, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.store.bound_lists import is_among
from treadle_server.store.read import counts
from treadle_server.store.read.orders import PENDING
from treadle_server.store.read.sources import due_pair
from treadle_server.store.read.walks import UNBOUNDED, Asked, Walk
from treadle_server.store.tables import status_in, tasks

NEAR = 200
"""How many tasks may lie between the place that is found and the window: so many are read anyway."""

MOST_BISECTED = 100
"""Most lanes that are bisected: each is a part of several statements, which took 17 to 21 s for 5,000 lanes."""

MOST_TURNS = 40
"""Most bisections. Each halves the rest, but tasks that come in meanwhile can prolong the search."""

_ENDS = ((datetime.min.replace(tzinfo=UTC), -1), (datetime.max.replace(tzinfo=UTC), 2**62))
"""Keys before and after all tasks of a priority."""

DueKey = tuple[datetime, int]
"""A task's due time and number: the order within a priority."""


class Depth(NamedTuple):
    """A place in the queue, and how many tasks are at or before it."""

    values: tuple[int, datetime, int] | None
    """The values of `orders.PENDING`'s columns; None means after all tasks."""
    passed: int


async def depth(connection: AsyncConnection, job_num: int | None, wanted: int, *, backward: bool) -> Depth:
    """Return a place in the queue, of one job or of all, with at most `wanted` tasks at or before it.

    With `backward` it is counted from the queue's end. There are at most `NEAR` fewer than `wanted`; a place after all
    tasks has as many as there are.
    """
    bands = await counts.in_line(connection, job_num)
    passed = 0
    for priority in sorted(bands, reverse=not backward):
        lanes = bands[priority]
        if passed + sum(lanes.values()) > wanted:
            band = _Band(connection, priority, backward=backward)
            key, within = await band.key(lanes, wanted - passed)
            return Depth((priority, *key), passed + within)
        passed += sum(lanes.values())
    return Depth(None, passed)


class _Part(NamedTuple):
    """The pending tasks of one lane that are blocked, or those that are not: an index has them in order."""

    lane: int
    blocked: bool


class _Band:
    """The pending tasks of one priority."""

    def __init__(self, connection: AsyncConnection, priority: int, *, backward: bool) -> None:
        self._connection = connection
        self._backward = backward
        self._at = (status_in(Status.PENDING), tasks.c.priority == literal(priority))

    async def key(self, lanes: Mapping[int, int], wanted: int) -> tuple[DueKey, int]:
        """Return a key with up to `wanted` tasks at or before it, and how many; `lanes` has the counts by lane."""
        if len(lanes) > MOST_BISECTED:
            return await self._sorted(lanes, wanted)
        parts = await self._parts(lanes)
        low, high = _ENDS[::-1] if self._backward else _ENDS
        passed = 0
        for _ in range(MOST_TURNS):
            inside, left = sum(parts.values()), wanted - passed
            if left <= NEAR or left >= inside:
                break
            steps = {part: max(1, n * left // inside) for part, n in parts.items()}
            keys = await self._keys(steps, low, high)
            if not keys:
                break
            middle = self._middle(keys, parts)
            before = steps if len(parts) == 1 else await self._counted(parts, self._between(low, middle))
            if (n := sum(before.values())) > left:
                high, parts = middle, before
            else:
                low, passed = middle, passed + n
                parts = {part: n - before.get(part, 0) for part, n in parts.items()}
            parts = {part: n for part, n in parts.items() if n > 0}
        return low, passed

    async def _sorted(self, lanes: Collection[int], wanted: int) -> tuple[DueKey, int]:
        """Return the key of the task that has `wanted` at or before it, found by sorting."""
        if wanted:
            at = (is_among(tasks.c.lane, "lanes"), tasks.c.blocked.in_([false(), true()]), *self._at)
            order = PENDING.order(backward=self._backward)[1:]
            key = select(tasks.c.due_at, tasks.c.seq).where(*at).order_by(*order).limit(1).offset(wanted - 1)
            rows = await self._connection.execute(key, {"lanes": sorted(lanes)})
            if (row := rows.first()) is not None:
                return (row.due_at, row.seq), wanted
        return (_ENDS[::-1] if self._backward else _ENDS)[0], 0

    async def _parts(self, lanes: Mapping[int, int]) -> dict[_Part, int]:
        """Return how many tasks each part has; the kept counts don't distinguish blocked ones."""
        held = await self._counted({_Part(lane, blocked=True): n for lane, n in lanes.items()}, ())
        found = held | {_Part(lane, blocked=False): n - held.get(_Part(lane, True), 0) for lane, n in lanes.items()}
        return {part: n for part, n in found.items() if n > 0}

    async def _counted(self, parts: Mapping[_Part, int], bounds: Sequence[ColumnElement[bool]]) -> dict[_Part, int]:
        """Return how many tasks of each part are within the bounds, at most the number in `parts`."""
        asked = []
        for part, n in parts.items():
            those = self._walk(part, bounds).those(_NOTHING, limit=n).subquery()
            asked.append(select(func.count().label("n")).select_from(those))
        return {part: n for part, (n,) in await self._told(list(parts), asked)}

    async def _keys(self, steps: Mapping[_Part, int], low: DueKey, high: DueKey) -> dict[_Part, DueKey]:
        """Return for each part the key that is so many steps after `low`."""
        bounds = self._between(low, high)
        asked = [
            self._walk(part, bounds).those(_NOTHING, limit=1, offset=n - 1, keys=("due_at", "seq"))
            for part, n in steps.items()
        ]
        return {part: (due_at, seq) for part, (due_at, seq) in await self._told(list(steps), asked)}

    async def _told(self, parts: Sequence[_Part], asked: Sequence[Any]) -> list[tuple[_Part, tuple[Any, ...]]]:
        # The columns of a part's select are in a subquery, since SQLite allows no LIMIT in a part of a union.
        named = [select(literal_column(str(i)).label("part"), one.subquery()) for i, one in enumerate(asked)]
        return [(parts[i], tuple(row)) for i, *row in await self._connection.execute(union_all(*named))]

    def _middle(self, keys: Mapping[_Part, DueKey], parts: Mapping[_Part, int]) -> DueKey:
        """Return the median of the keys, weighted by the sizes of their parts."""
        ordered = sorted((key, parts[part]) for part, key in keys.items())
        if self._backward:
            ordered.reverse()
        so_far = list(accumulate(n for _, n in ordered))
        return ordered[bisect_left(so_far, so_far[-1] / 2)][0]

    def _walk(self, part: _Part, bounds: Sequence[ColumnElement[bool]]) -> Walk:
        at = (tasks.c.lane == literal(part.lane), tasks.c.blocked == literal(part.blocked), *self._at, *bounds)
        return Walk(at, PENDING.order(backward=self._backward)[1:], UNBOUNDED)

    def _between(self, low: DueKey, high: DueKey) -> list[ColumnElement[bool]]:
        """Return the conditions that a task comes after `low`, and not after `high`."""
        due_at, seq = tasks.c.due_at, tasks.c.seq
        behind, upto, to_low, before = (lt, ge, le, gt) if self._backward else (gt, le, ge, lt)
        if self._connection.dialect.name == "postgresql":
            # With a bound of the number alone it might walk the primary key (`positions.py`).
            pair = tuple_(due_at, seq)
            return [behind(pair, due_pair(*low)), upto(pair, due_pair(*high))]
        return [
            *(to_low(due_at, low[0]), or_(behind(due_at, low[0]), behind(seq, low[1]))),
            *(upto(due_at, high[0]), or_(before(due_at, high[0]), upto(seq, high[1]))),
        ]


_NOTHING = Asked([])
"""No conditions besides the place."""
