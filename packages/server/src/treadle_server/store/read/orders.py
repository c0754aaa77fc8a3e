"""The orders of the task list (docs/protocol.md), and places in them.

An order is a sequence of segments: `position` has those of leased, pending, scheduled, blocked, paused and ended tasks;
the other orders have one. A place is where a task was in an order when it was looked up: it does not move with the
task, so that a window anchored to it stays put.

A rank expresses the order in memory: of two tasks the one with the lower rank comes first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, or_

from treadle.wire.status import LEASED, TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.tables import status_in, tasks

ALL = frozenset(Status)

Rank = tuple[Any, ...]
"""A task's rank in an order: the number of its segment, and values that ascend within it."""


class SortKey(NamedTuple):
    """A place in an order: the number of its segment, and the values of that segment's columns."""

    segment: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the list: the tasks of some statuses, ordered by some columns, each up or down."""

    statuses: frozenset[Status]
    by: tuple[tuple[str, bool], ...]
    """(column, ascending)."""

    def order(self, *, backward: bool = False) -> list[Any]:
        """Return the ORDER BY, or with `backward` its reverse."""
        return [tasks.c[name].asc() if up is not backward else tasks.c[name].desc() for name, up in self.by]

    def values(self, task: Task) -> tuple[Any, ...]:
        """Return the task's values of this segment's columns."""
        return tuple(getattr(task, name) for name, _ in self.by)

    def beyond(self, values: tuple[Any, ...], *, backward: bool, inclusive: bool) -> ColumnElement[bool]:
        """Return the condition that a task comes after a place in this segment, or before it with `backward`.

        Each part of the condition is a range of an index in this order. `inclusive` admits the task at the place
        itself.
        """
        found: list[ColumnElement[bool]] = []
        equal: list[ColumnElement[bool]] = []
        for (name, up), value in zip(self.by, values, strict=True):
            column = tasks.c[name]
            found.append(and_(*equal, column > value if up is not backward else column < value))
            equal.append(column == value)
        if inclusive:
            found.append(and_(*equal))
        name, up = self.by[0]
        lead = tasks.c[name] >= values[0] if up is not backward else tasks.c[name] <= values[0]
        # The first condition follows from the rest, but lets an index be used.
        return and_(lead, or_(*found))


PENDING = Segment(frozenset({Status.PENDING}), (("priority", False), ("due_at", True), ("seq", True)))
ORDERS: dict[str, tuple[Segment, ...]] = {
    "newest": (Segment(ALL, (("seq", False),)),),
    "oldest": (Segment(ALL, (("seq", True),)),),
    "updated": (Segment(ALL, (("updated_at", False), ("seq", False))),),
    "position": (
        Segment(LEASED, (("claimed_at", True), ("seq", True))),
        PENDING,
        Segment(frozenset({Status.SCHEDULED}), (("due_at", True), ("seq", True))),
        Segment(frozenset({Status.BLOCKED}), (("seq", True),)),
        Segment(frozenset({Status.PAUSED}), (("seq", False),)),
        Segment(TERMINAL, (("seq", False),)),
    ),
}


def sort_key_of(task: Task, order: str) -> SortKey:
    """Return the task's place in the named order, which has a segment for every status."""
    for number, segment in enumerate(ORDERS[order]):
        if task.status in segment.statuses:
            return SortKey(number, segment.values(task))
    raise AssertionError(f"the order {order} has no position for {task.status} tasks")


def rank_at(at: SortKey, order: str) -> Rank:
    """Return the rank of a place in the named order: everything before it has a lower one."""
    return at.segment, *_rising(ORDERS[order][at.segment], at.values)


def ranks_in(order: str, number: int) -> Callable[[Task], Rank]:
    """Return a function that gives the rank of a task in this segment of the order."""
    segment = ORDERS[order][number]
    values = attrgetter(*(name for name, _ in segment.by))
    if len(segment.by) == 1:
        sign = 1 if segment.by[0][1] else -1
        return lambda task: (number, sign * values(task))
    if all(up for _, up in segment.by):
        return lambda task: (number, *values(task))
    return lambda task: (number, *_rising(segment, values(task)))


def steps_in(order: str, number: int) -> list[tuple[tuple[str, ...], bool]]:
    """Return how to sort tasks of this segment: stable sorts to apply in turn, as (columns, ascending).

    This sorts 10,000 tasks in 9 ms; by rank it takes 19.
    """
    runs = groupby(ORDERS[order][number].by, key=itemgetter(1))
    return [(tuple(name for name, _ in columns), up) for up, columns in runs][::-1]


def rank_of(order: str) -> Callable[[Task], Rank]:
    """Return a function that gives a task's rank in the order."""
    told = {status: ranks_in(order, i) for i, segment in enumerate(ORDERS[order]) for status in segment.statuses}
    return lambda task: told[task.status](task)


def _rising(segment: Segment, values: tuple[Any, ...]) -> list[Any]:
    """Return the values, negated where the segment's column descends."""
    return [value if up else _falling(value) for value, (_, up) in zip(values, segment.by, strict=True)]


def _falling(value: Any) -> Any:
    """Return the value negated; an instant's timestamp, as a float, has microseconds for the next 100 years."""
    return -value.timestamp() if isinstance(value, datetime) else -value


@cache
def whole_order(order: str) -> tuple[ColumnElement[Any], ...]:
    """Return an ORDER BY over all segments at once, so that one statement reads one moment's list."""
    segments = ORDERS[order]
    if len(segments) == 1:
        return tuple(segments[0].order())
    columns: list[ColumnElement[Any]] = [case(*((status_in(*s.statuses), i) for i, s in enumerate(segments)))]
    for at in range(max(len(segment.by) for segment in segments)):
        for up in (True, False):
            named = [(s, s.by[at][0]) for s in segments if at < len(s.by) and s.by[at][1] is up]
            # A CASE has one type, so instants and numbers need separate ones.
            for column in dict.fromkeys(name for _, name in named):
                having = [segment for segment, name in named if name == column]
                value = case((status_in(*frozenset().union(*(s.statuses for s in having))), tasks.c[column]))
                columns.append(value.asc() if up else value.desc())
    return tuple(columns)
