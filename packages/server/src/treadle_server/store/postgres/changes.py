"""A batch's changes on PostgreSQL as one statement, which fails as a whole unless it changed the expected rows.

A single statement is its own transaction: one round trip, where BEGIN and COMMIT would make it three. Nothing can be
checked between the statement and its commit, so the statement checks itself: a division by zero reports that a row was
not as expected or, where the statement is its own transaction, that the time or the exclusive writer is not what the
server believes. The row that names the exclusive writer is read with a lock that is held until the commit: whoever
wants to change it waits, and a change that was committed first is seen, whenever the statement began.
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from treadle_server.domain.tasks import Task
from treadle_server.store.postgres.exclusive import KEY, SHOWN

MOST_TEXTS = 1024
"""Statement texts that are cached: inserts have one for each set of columns that vary."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table that are inserted or updated in the same way."""

    name: str
    """Its name within the statement."""
    sql: str
    """INSERT or UPDATE; its values are $1 and so on."""
    values: tuple[Any, ...]
    count: int
    """How many rows it has to change."""
    new: tuple[Task, ...] = ()
    """The tasks that it inserts."""
    fills_queues: bool = False
    """Whether a read of a queue's head may find rows that it changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """The parts of one statement: they touch different rows, and run in no particular order."""

    parts: tuple[Part, ...] = ()
    touched: frozenset[int] = frozenset()
    """The numbers of the tasks that it changes."""
    counts: Mapping[Any, int] = field(default_factory=dict[Hashable, int])
    """The changes of counts in it, for code that merges it with another one."""

    def goes_with(self, name: str, touched: frozenset[int]) -> bool:
        """Return whether a part with this name, for these tasks, may be added to the statement."""
        return self.touched.isdisjoint(touched) and all(part.name != name for part in self.parts)

    @property
    def fills_queues(self) -> bool:
        """Return whether a read of a queue's head may find rows that it inserts or moves there."""
        return any(part.fills_queues for part in self.parts)

    def part(self, name: str) -> Part | None:
        """Return the part of that name."""
        return next((part for part in self.parts if part.name == name), None)

    @property
    def new(self) -> tuple[Task, ...]:
        """Return the tasks that it inserts."""
        return tuple(task for part in self.parts for task in part.new)

    @property
    def values(self) -> list[Any]:
        """Return the statement's values, without those of `BELIEF`."""
        return [value for part in self.parts for value in part.values] + [part.count for part in self.parts]

    def text(self, *, is_alone: bool) -> str:
        """Return the statement; with `is_alone` it is a whole transaction, and takes `BELIEF`'s three values last."""
        return _text(tuple((part.name, part.sql, len(part.values)) for part in self.parts), is_alone)


BELIEF = "(SELECT value FROM believed) = $1 AND clock_timestamp() BETWEEN $2 AND $3"
"""What a server believes: who the exclusive writer is, and between which instants it is now."""

# The names are the program's own.
_BELIEVED = f"believed AS (SELECT {SHOWN} AS value FROM meta WHERE key = '{KEY}' FOR SHARE)"  # noqa: S608


@lru_cache(maxsize=MOST_TEXTS)
def _text(parts: tuple[tuple[str, str, int], ...], is_alone: bool) -> str:  # noqa: FBT001 - part of the cache's key
    tables, checks, sent = [], [], 0
    for name, sql, width in parts:
        tables.append(f"{name} AS ({_moved(sql, sent)} RETURNING 1)")
        sent += width
    for name, _, _ in parts:
        sent += 1
        checks.append(f"(SELECT count(*) FROM {name}) = ${sent}")  # noqa: S608 - see below
    if is_alone:
        # First, so that a statement that waits for this row has locked nothing else.
        tables.append(_BELIEVED)
        checks.insert(0, _moved(BELIEF, sent))
    # The names and texts are the program's own; every value is bound.
    return f"WITH {', '.join(tables)} SELECT 1 / ({' AND '.join(checks)})::int"


def _moved(sql: str, by: int) -> str:
    """Return the SQL with its parameters renumbered."""
    return re.sub(r"[$]([0-9]+)", lambda place: f"${int(place[1]) + by}", sql)
