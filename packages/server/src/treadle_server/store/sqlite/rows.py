"""Rows of tasks as the drivers give them: what the hot path reads without a layer between.

A row of 60 columns costs SQLAlchemy 40 microseconds on its way to a `Task`; here it costs 7.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from sqlalchemy import Boolean

from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import TASK_FIELDS, Task
from treadle_server.store.tables import task_specs, tasks
from treadle_server.store.types import Id, Instant, instant

STATUS = {str(status): status for status in Status}
REASON: dict[str | None, Reason | None] = {None: None} | {str(reason): reason for reason in Reason}

_KINDS = {column.name: column.type for table in (task_specs, tasks) for column in table.c}
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

    def of(self, dialect: str, rows: Iterable[Sequence[Any]]) -> list[Task]:
        """Return either's."""
        return self.of_sqlite(rows) if dialect == "sqlite" else self.of_postgres(rows)


WHOLE = TaskRows({})
"""Tasks that are read whole."""

HEADS = TaskRows(PENDING)
"""Claimable tasks, without what is known of each of them."""
