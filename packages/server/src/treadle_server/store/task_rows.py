"""Rows of tasks: `tasks` has a task's state, `task_specs` what it is to do.

The hot path makes tasks from the drivers' rows directly: through SQLAlchemy a row of 60 columns takes 40 microseconds
to become a `Task`; here it takes 7.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, Select, join, select

from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import TASK_FIELDS, Task
from treadle_server.store.base import Dialect
from treadle_server.store.bound_lists import is_same
from treadle_server.store.tables import task_specs, tasks
from treadle_server.store.types import Id, Instant, instant

COLUMNS: Mapping[str, Column[Any]] = {
    name: tasks.c[name] if name in tasks.c else task_specs.c[name] for name in TASK_FIELDS
}
"""The column of each field of a `Task`, in the fields' order."""

SPEC = tuple(column.name for column in task_specs.c)
"""The columns of `task_specs`."""

STATE = tuple(name for name in TASK_FIELDS if name in tasks.c)
"""The columns of a task's state."""


WITH_SPECS = join(tasks, task_specs, is_same(task_specs.c.seq, tasks.c.seq))
"""Tasks joined with their specs, which are looked up by number, whatever statistics PostgreSQL has."""


def select_tasks(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the statement that reads whole tasks, with `more` columns at the end."""
    return select(*COLUMNS.values(), *more).select_from(WITH_SPECS)


def locked(statement: Select[Any], *, skip: bool = False) -> Select[Any]:
    """Return the statement with both rows of each task locked until the commit; SQLite's writer has locked everything.

    PostgreSQL rereads a locked row that it had to wait for, but not one that is merely joined to it: without the second
    lock an edit of `task_specs` would be missed. With `skip`, rows that are locked by others are left out.
    """
    return statement.with_for_update(of=(tasks, task_specs), skip_locked=skip)


STATUS = {str(status): status for status in Status}
REASON: dict[str | None, Reason | None] = {None: None} | {str(reason): reason for reason in Reason}

_KINDS = {name: column.type for name, column in COLUMNS.items()}
_WORDS: dict[str, dict[Any, Any]] = {"status": STATUS, "reason": REASON}

PENDING: dict[str, Any] = {
    "status": Status.PENDING, "blocked": False, "unfenced": False, "parked": False, "cancel_requested": False,
    "settled": False, "claimed_at": None, "started_at": None, "completed_at": None, "taken_until": None,
    "next_retry_at": None, "result": None, "progress": None, "digest": None,
}  # fmt: skip
"""Values that every claimable task has in these columns, or that its claim sets."""


class TaskRows:
    """Makes tasks from the drivers' rows."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        """`known` has the values of the columns that are not read."""
        self.names = tuple(name for name in TASK_FIELDS if name not in known)
        """The columns that are read."""
        self._known = tuple(known.values())
        places = [(*self.names, *known).index(name) for name in TASK_FIELDS]
        self._in_order: Callable[[list[Any]], tuple[Any, ...]] = itemgetter(*places) if known else tuple
        columns = list(enumerate(self.names))
        self._ids = [i for i, name in columns if _KINDS[name] is Id]
        self._instants = [i for i, name in columns if isinstance(_KINDS[name], Instant)]
        self._booleans = [i for i, name in columns if isinstance(_KINDS[name], Boolean)]
        self._words = [(i, _WORDS[name]) for i, name in columns if name in _WORDS]

    def of_sqlite(self, rows: Iterable[Sequence[Any]]) -> list[Task]:
        """Return the tasks of SQLite's rows. Tasks inserted together share instants, so each is converted once."""
        made: dict[int | None, datetime | None] = {None: None}
        found: list[Task] = []
        for row in rows:
            values = [*row, *self._known]
            for i in self._instants:
                value = values[i]
                if value not in made:
                    made[value] = instant(value)
                values[i] = made[value]
            for i in self._booleans:
                values[i] = values[i] == 1
            for i, words in self._words:
                values[i] = words[values[i]]
            found.append(Task(*self._in_order(values)))
        return found

    def of_postgres(self, rows: Iterable[Sequence[Any]]) -> list[Task]:
        """Return the tasks of PostgreSQL's rows."""
        found: list[Task] = []
        for row in rows:
            values = [*row, *self._known]
            for i in self._ids:
                if (value := values[i]) is not None:
                    values[i] = str(value)
            for i, words in self._words:
                values[i] = words[values[i]]
            found.append(Task(*self._in_order(values)))
        return found

    def of(self, dialect: Dialect, rows: Iterable[Sequence[Any]]) -> list[Task]:
        """Return the tasks of the rows of either database."""
        return self.of_sqlite(rows) if dialect == "sqlite" else self.of_postgres(rows)


WHOLE = TaskRows({})
"""For whole tasks."""

HEADS = TaskRows(PENDING)
"""For claimable tasks, without the columns whose values are known."""
