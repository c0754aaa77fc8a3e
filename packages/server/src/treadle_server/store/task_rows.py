"""Rows of tasks: where a task is stands in `tasks`, what it is to do in `task_specs`.

What the hot path reads is made into tasks of the rows that the drivers give, without a layer between: a row of 60
columns costs SQLAlchemy 40 microseconds on its way to a `Task`; here it costs 7.
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
"""Each field of a `Task`, in their order, as the column that has it."""

SPEC = tuple(column.name for column in task_specs.c)
"""The columns of what a task is to do."""

STATE = tuple(name for name in TASK_FIELDS if name in tasks.c)
"""The columns of where it is."""


WITH_SPECS = join(tasks, task_specs, is_same(task_specs.c.seq, tasks.c.seq))
"""The tasks, each with what it is to do: that is looked up, whatever PostgreSQL knows of the tables."""


def select_tasks(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the statement that reads tasks whole, and behind that what `more` there is to read of them."""
    return select(*COLUMNS.values(), *more).select_from(WITH_SPECS)


def locked(statement: Select[Any], *, skip: bool = False) -> Select[Any]:
    """Return the same with both rows of each task locked until the commit; SQLite's writer has locked all.

    Of a row that it waited for PostgreSQL reads what stands there then, of one that is only joined to it what stood
    there before: an edit of what the task is to do would be missed. With `skip` those that another one has locked are
    left to it.
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
"""What stands in the columns of a claimable task, or is put there by its claim."""


class TaskRows:
    """Makes tasks of rows as the drivers give them."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        """`known` is what stands in the columns that are not read."""
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
        """Return SQLite's tasks. Those that were put in together share their instants: each is made once."""
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
        """Return PostgreSQL's tasks."""
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
        """Return either's."""
        return self.of_sqlite(rows) if dialect == "sqlite" else self.of_postgres(rows)


WHOLE = TaskRows({})
"""Tasks that are read whole."""

HEADS = TaskRows(PENDING)
"""Claimable tasks, without what is known of each of them."""
