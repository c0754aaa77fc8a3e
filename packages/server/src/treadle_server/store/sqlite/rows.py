"""SQLite's rows as the driver gives and takes them: what the hot path reads and writes without a layer between.

A row of 60 columns costs SQLAlchemy 40 microseconds on its way to a `Task`; here it costs 7.
"""

from collections.abc import Iterable, Sequence
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
_IDS = tuple(i for i, name in enumerate(TASK_FIELDS) if _KINDS[name] is Id)
_INSTANTS = tuple(i for i, name in enumerate(TASK_FIELDS) if isinstance(_KINDS[name], Instant))
_BOOLEANS = tuple(i for i, name in enumerate(TASK_FIELDS) if isinstance(_KINDS[name], Boolean))
_STATUS = TASK_FIELDS.index("status")
_REASON = TASK_FIELDS.index("reason")


PENDING: dict[str, Any] = {
    "status": Status.PENDING, "blocked": False, "unfenced": False, "parked": False, "cancel_requested": False,
    "settled": False, "claimed_at": None, "started_at": None, "completed_at": None, "taken_until": None,
    "next_retry_at": None, "result": None, "progress": None, "digest": None,
}  # fmt: skip
"""What stands in the columns of a claimable task, or is put there by its claim."""

HEAD = tuple(name for name in TASK_FIELDS if name not in PENDING)
"""The other columns: those of a claimable task that are read."""

_IN_ORDER = itemgetter(*((*HEAD, *PENDING).index(name) for name in TASK_FIELDS))
_HEAD_INSTANTS = tuple(i for i, name in enumerate(HEAD) if isinstance(_KINDS[name], Instant))
_HEAD_IDS = tuple(i for i, name in enumerate(HEAD) if _KINDS[name] is Id)
_HEAD_REASON = HEAD.index("reason")
_HEAD_GOES_FIRST = HEAD.index("goes_first")


def tasks_of(rows: Iterable[Sequence[Any]]) -> list[Task]:
    """Return rows of tasks that were read whole. What they have in common of instants is made once."""
    known: dict[int, datetime] = {}
    found: list[Task] = []
    for row in rows:
        values = list(row)
        for i in _INSTANTS:
            if (value := values[i]) is not None:
                if value not in known:
                    known[value] = instant(value)
                values[i] = known[value]
        for i in _BOOLEANS:
            values[i] = values[i] == 1
        values[_STATUS] = STATUS[values[_STATUS]]
        values[_REASON] = REASON[values[_REASON]]
        found.append(Task(*values))
    return found


def heads_of(rows: Iterable[Sequence[Any]]) -> list[Task]:
    """Return rows of claimable tasks, of the columns `HEAD`.

    Tasks that were put in together share their instants: each is made once.
    """
    known: dict[int | None, datetime | None] = {None: None}
    pending = tuple(PENDING.values())
    found: list[Task] = []
    for row in rows:
        values = [*row, *pending]
        for i in _HEAD_INSTANTS:
            value = values[i]
            if value not in known:
                known[value] = instant(value)
            values[i] = known[value]
        values[_HEAD_GOES_FIRST] = values[_HEAD_GOES_FIRST] == 1
        values[_HEAD_REASON] = REASON[values[_HEAD_REASON]]
        found.append(Task(*_IN_ORDER(values)))
    return found


def head_records_of(rows: Iterable[Sequence[Any]]) -> list[Task]:
    """Return rows of claimable tasks, of the columns `HEAD`, as PostgreSQL's driver gives them."""
    pending = tuple(PENDING.values())
    found: list[Task] = []
    for row in rows:
        values = [*row, *pending]
        for i in _HEAD_IDS:
            if (value := values[i]) is not None:
                values[i] = str(value)
        values[_HEAD_REASON] = REASON[values[_HEAD_REASON]]
        found.append(Task(*_IN_ORDER(values)))
    return found


def record_of(row: Sequence[Any]) -> Task:
    """Return a row of a task that was read whole, as PostgreSQL's driver gives it."""
    values = list(row)
    for i in _IDS:
        if (value := values[i]) is not None:
            values[i] = str(value)
    values[_STATUS] = STATUS[values[_STATUS]]
    values[_REASON] = REASON[values[_REASON]]
    return Task(*values)
