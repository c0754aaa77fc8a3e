"""How many tasks wait for limits, by the buckets that they count against: counted no further than a screen needs.

Which lines there are is found by leaping from one to the next along the index of lines; then each is counted up
to its share of `MOST_COUNTED`, and those that have more share what the others left.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.store.bound_lists import TEXT, is_same, rows_of
from treadle_server.store.tables import IN_LINE, tasks

MOST_COUNTED = 20_000
"""Waiting tasks that are counted for one answer."""

MOST_LINES = 10_000
"""Lines, each of tasks that count against the same buckets, that are looked at for one answer."""

LEAST_COUNTED = 2
"""Tasks of a line that are counted however many lines there are."""

_waits = text(IN_LINE)


@dataclass(slots=True)
class Crowds:
    """How many tasks wait, by the text of the buckets that they count against."""

    waiting: dict[str, int] = field(default_factory=dict)
    more: set[str] = field(default_factory=set)
    """Those for which more wait than were counted."""
    is_cut: bool = False
    """Whether there are lines that were not looked at."""


async def all_of(connection: AsyncConnection) -> Crowds:
    """Return what waits, counted to the last task."""
    by_line = select(tasks.c.limit_key, func.count()).where(_waits).group_by(tasks.c.limit_key)
    return Crowds({row[0]: row[1] for row in await connection.execute(by_line)})


async def some_of(connection: AsyncConnection) -> Crowds:
    """Return what waits, counted up to `MOST_COUNTED` tasks of up to `MOST_LINES` lines."""
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
    """Return a statement that yields each text of buckets that waiting tasks have, in the order of the index."""
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
