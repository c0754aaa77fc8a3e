"""What a batch changes on PostgreSQL as one statement, which fails as a whole unless it changed what it was to change.

A transaction of one statement is the statement itself: one way there and back, where BEGIN and COMMIT make it three.
Nothing can be looked at before it is committed, so it looks itself: a division by zero says that a row was not as it
was known, or, where it stands alone, that the time or who writes is another than its server believes. Of the latter the
row is locked until the commit, and read as it is then: who would change it waits, and who has changed it is seen,
whenever the statement began.
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from treadle_server.domain.tasks import Task
from treadle_server.store.postgres.exclusive import KEY

MOST_TEXTS = 1024
"""Statements that are remembered as texts: new tasks have one for each set of columns in which they differ."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table that are put in or updated, all alike."""

    name: str
    """What it does, within its statement."""
    sql: str
    """INSERT or UPDATE; its values are $1 and so on."""
    values: tuple[Any, ...]
    count: int
    """How many rows it is to change."""
    new: tuple[Task, ...] = ()
    """The tasks that it puts in."""
    fills_queues: bool = False
    """Whether who reads the head of a queue may find what it changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done in one statement: parts that touch different rows, in no order."""

    parts: tuple[Part, ...] = ()
    touched: frozenset[int] = frozenset()
    """The numbers of the tasks that it changes."""
    counts: Mapping[Any, int] = field(default_factory=dict[Hashable, int])
    """What is counted in it, for who joins another one with it."""

    def goes_with(self, name: str, touched: frozenset[int]) -> bool:
        """Return whether a part of that name, for these tasks, may stand in the same statement."""
        return self.touched.isdisjoint(touched) and all(part.name != name for part in self.parts)

    @property
    def fills_queues(self) -> bool:
        """Return whether who reads the head of a queue may find what it puts in, or moves there."""
        return any(part.fills_queues for part in self.parts)

    def part(self, name: str) -> Part | None:
        """Return the part of that name."""
        return next((part for part in self.parts if part.name == name), None)

    @property
    def new(self) -> tuple[Task, ...]:
        """Return the tasks that it puts in."""
        return tuple(task for part in self.parts for task in part.new)

    @property
    def values(self) -> list[Any]:
        """Return the values that the statement is sent with, without those of its server's belief."""
        return [value for part in self.parts for value in part.values] + [part.count for part in self.parts]

    def text(self, *, is_alone: bool) -> str:
        """Return the statement; alone it is a transaction of its own, whose last three values are `BELIEF`'s."""
        return _text(tuple((part.name, part.sql, len(part.values)) for part in self.parts), is_alone)


BELIEF = "(SELECT value FROM believed) = $1 AND clock_timestamp() BETWEEN $2 AND $3"
"""What a server believes: who writes, and between which instants it is now."""

_BELIEVED = f"believed AS (SELECT value FROM meta WHERE key = '{KEY}' FOR SHARE)"  # noqa: S608 - the program's own


@lru_cache(maxsize=MOST_TEXTS)
def _text(parts: tuple[tuple[str, str, int], ...], is_alone: bool) -> str:  # noqa: FBT001 - a key of the cache
    tables, checks, sent = [], [], 0
    for name, sql, width in parts:
        tables.append(f"{name} AS ({_moved(sql, sent)} RETURNING 1)")
        sent += width
    for name, _, _ in parts:
        sent += 1
        checks.append(f"(SELECT count(*) FROM {name}) = ${sent}")  # noqa: S608 - see below
    if is_alone:
        # It comes first: who waits for the row has locked nothing else.
        tables.append(_BELIEVED)
        checks.insert(0, _moved(BELIEF, sent))
    # Names and texts of the program's own; every value is bound.
    return f"WITH {', '.join(tables)} SELECT 1 / ({' AND '.join(checks)})::int"


def _moved(sql: str, by: int) -> str:
    """Return the text with its values' places moved."""
    return re.sub(r"[$]([0-9]+)", lambda place: f"${int(place[1]) + by}", sql)
