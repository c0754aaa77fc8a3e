"""Count the tasks that wait for limits, by the buckets that they count against, only as far as a screen needs.

The lines are found by skipping from one to the next along their index; then each is counted up to its share of
`MOST_COUNTED`, and those that have more share what the others left.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.store.bound_lists import TEXT, is_same, rows_of
from treadle_server.store.tables import IN_LINE, tasks

MOST_COUNTED = 20_000
"""Most waiting tasks that are counted for one answer."""

MOST_LINES = 10_000
"""Most lines that are read for one answer; a line is the tasks that count against the same buckets."""

LEAST_COUNTED = 2
"""Tasks that are counted of every line, however many lines there are."""

_waits = text(IN_LINE)


@dataclass(slots=True)
class Crowds:
    """The counts of waiting tasks, by their `limit_key`: the text of the buckets that they count against."""

    waiting: dict[str, int] = field(default_factory=dict)
    more: set[str] = field(default_factory=set)
    """The lines of which not all tasks were counted."""
    is_cut: bool = False
    """Whether there are lines that were not read."""


async def all_of(connection: AsyncConnection) -> Crowds:
    """Return the exact counts."""
    by_line = select(tasks.c.limit_key, func.count()).where(_waits).group_by(tasks.c.limit_key)
    return Crowds({row[0]: row[1] for row in await connection.execute(by_line)})


async def some_of(connection: AsyncConnection) -> Crowds:
    """Return the counts of up to `MOST_LINES` lines, up to some `MOST_COUNTED` tasks in all."""
    lines = list((await connection.execute(_lines().limit(MOST_LINES + 1))).scalars())
    found = Crowds(is_cut=len(lines) > MOST_LINES)
    missing = lines[:MOST_LINES]
    for _ in range(2):
        if missing:
            each = max(LEAST_COUNTED, MOST_COUNTED // 2 // len(missing))
            rows = await _counted(connection, missing, each)
            found.more = {line for line, n in rows.items() if n > each}
            found.waiting |= {line: min(n, each) for line, n in rows.items() if n}
            missing = sorted(found.more)
    return found


def _lines() -> Select[Any]:
    """Return a statement that yields the `limit_key` of each line, in the order of the index."""
    first = select(tasks.c.limit_key).where(_waits).order_by(tasks.c.limit_key).limit(1)
    line = select(first.scalar_subquery().label("line")).cte("line", recursive=True)
    following = first.where(tasks.c.limit_key > line.c.line).correlate(line).scalar_subquery()
    line = line.union_all(select(following).where(line.c.line.is_not(None)))
    return select(line.c.line).where(line.c.line.is_not(None))


async def _counted(connection: AsyncConnection, lines: Collection[str], each: int) -> dict[str, int]:
    """Return how many wait in each of the lines, up to one more than `each`."""
    given, line = rows_of("lines", TEXT)
    waiting = select(tasks.c.seq).where(is_same(tasks.c.limit_key, line), _waits).limit(each + 1)
    count = select(func.count()).select_from(waiting.correlate(given).subquery()).scalar_subquery()
    rows = await connection.execute(select(line, count).select_from(given), {"lines": lines})
    return {row[0]: row[1] for row in rows}
