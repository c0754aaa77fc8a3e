"""How far a list looks for what no index knows: along an index in the list's own order, and up to a bound.

A text, a duration, the class of an error, what must not be so: such conditions are asked of one task after the other.
Without a bound all tasks there are would be asked for a page of matches that are few or old. Who lists is told when the
bound was met, and where: a page's cursor goes on behind the last one that was asked.

The part that walks has a LIMIT of its own. Neither database moves a condition into such a part, nor sorts what comes
out of it: the plan is the same whatever is known of the tables, and ends with the page.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Column, ColumnClause, ColumnElement, Select, SelectBase, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.visitors import iterate, replacement_traverse

from treadle_server.store.bound_lists import is_same
from treadle_server.store.tables import task_specs, tasks

LOOKED_THROUGH = 100_000
"""Tasks that a list looks through at most for those that match."""

LOOKED_FAR = 1_000_000
"""Tasks that a jump far into a list looks through at most, where the kept counts say how many match."""

UNBOUNDED = 2**62
"""Where all are looked through."""

CLOCKS_APART = timedelta(hours=1)
"""How much earlier than its predecessor a task may say that it came in: clocks are set back now and then."""

_IN_TEXT = re.compile(r"tasks\.(\w+)")


@dataclass(frozen=True, slots=True)
class Walk:
    """Tasks as an index has them."""

    along: Sequence[ColumnElement[bool]]
    """Conditions by which the index is entered."""
    by: Sequence[ColumnElement[Any]]
    """The order that it has."""
    most: int
    """How many are looked through."""

    def those(self, asked: "Asked", *, limit: int, offset: int = 0, keys: Sequence[str] = ("seq",)) -> Select[Any]:
        """Return the `keys` of up to `limit` tasks, behind the first `offset`, for which all that is asked holds."""
        if asked.conditions:
            found = self._asked(asked, keys).limit(limit)
        else:
            found = self._part(keys).limit(min(limit, self.most))
        return found.offset(offset) if offset else found

    def ordered(self, asked: "Asked", order: Sequence[ColumnElement[Any]], *, limit: int, offset: int) -> Select[Any]:
        """Return the numbers of up to `limit`, behind the first `offset`, in another `order` than the walk has.

        They are sorted by what the order needs alone: with all that a list shows of them, 100,000 took SQLite 240 ms
        instead of 16.
        """
        by = Asked(order)
        return self._asked(asked, ["seq"], also=by.columns).order_by(*by.conditions).limit(limit).offset(offset)

    def _asked(self, asked: "Asked", keys: Sequence[str], also: Sequence[str] = ()) -> Select[Any]:
        """Return the `keys` of those for which all holds; what is done with them further may need others `also`."""
        # SQLite makes each column of the part for each task: a payload only if it is looked at.
        part = self._part(dict.fromkeys([*keys, *also, *asked.columns])).limit(self.most).subquery("tasks")
        shown = (_shown(name).label(name) for name in keys)
        return select(*shown).select_from(part).where(*asked.conditions)

    async def end(self, connection: AsyncConnection) -> int | None:
        """Return the number of the last task that is looked through; None when there is none behind it."""
        behind = self._part(["seq"]).offset(self.most - 1).limit(2)
        found = (await connection.execute(behind)).scalars().all()
        return found[0] if len(found) > 1 else None

    def behind(self) -> Select[Any]:
        """Return the number of the first task that is not looked through any more."""
        return self._part(["seq"]).offset(self.most).limit(1)

    def _part(self, names: Iterable[str]) -> Select[Any]:
        return select(*(tasks.c[name] for name in names)).where(*self.along).order_by(*self.by)


@dataclass(frozen=True, slots=True)
class ListWalk(Walk):
    """Tasks as the list of a job or of a room has them, by their numbers; each is looked up, unless the list tells all.

    What it is entered by says of them no more than their job, room and number.
    """

    def _part(self, names: Iterable[str]) -> Select[Any]:
        columns = [_LISTED.get(name, tasks.c[name]).label(name) for name in names]
        statement = select(*columns).select_from(task_specs)
        if any(column.element.table is tasks for column in columns):
            statement = statement.join(tasks, is_same(tasks.c.seq, task_specs.c.seq))
        return statement.where(*map(_of_list, self.along)).order_by(*map(_of_list, self.by))


_LISTED = {"seq": task_specs.c.seq, "job_num": task_specs.c.job_num, "room": task_specs.c.room}


def is_listed(along: Iterable[ColumnElement[bool]]) -> bool:
    """Return whether tasks for which the conditions hold stand in the list of a job or a room."""
    names = {name for condition in along for element in iterate(condition) for name in _named(element)}
    return names <= _LISTED.keys() and not names <= {"seq"}


def _of_list(condition: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return what is said of a task, as it is said of its place in a list."""

    def listed(element: Any, **_: Any) -> ColumnElement[Any] | None:
        return _LISTED[element.name] if isinstance(element, Column) and element.table is tasks else None

    found: ColumnElement[Any] = replacement_traverse(condition, {}, listed)
    return found


class Asked:
    """What is asked of each task that is looked through."""

    def __init__(self, conditions: Sequence[ColumnElement[bool]]) -> None:
        elements = [element for condition in conditions for element in iterate(condition)]
        self.conditions = [_by_name(condition) for condition in conditions]
        """The conditions of a part that is called as the table is."""
        self.columns = [name for element in elements for name in _named(element)]
        """The columns that they look at."""


def _named(element: Any) -> Sequence[str]:
    if isinstance(element, Column) and element.table is tasks:
        return [element.name]
    # Some are spelt out as text.
    return _IN_TEXT.findall(element.name) if isinstance(element, ColumnClause) and element.is_literal else []


def _by_name(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition with the names of columns alone, which any part has that is called as the table is."""

    def named(element: Any, **_: Any) -> ColumnElement[Any] | None:
        return _shown(element.name) if isinstance(element, Column) and element.table is tasks else None

    found: ColumnElement[bool] = replacement_traverse(condition, {}, named)
    return found


def _shown(name: str) -> ColumnElement[Any]:
    return literal_column(f"tasks.{name}", tasks.c[name].type)


async def count(connection: AsyncConnection, those: SelectBase) -> int:
    """Return how many there are of those that are selected, which have a limit."""
    return (await connection.execute(select(func.count()).select_from(those.subquery()))).scalar_one()
