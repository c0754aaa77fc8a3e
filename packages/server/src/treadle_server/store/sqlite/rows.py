"""SQLite's rows as the driver gives and takes them: what the hot path reads and writes without a layer between.

A row of 57 columns costs SQLAlchemy 40 microseconds on its way to a `Task`; here it costs 7.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Boolean

from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import TASK_FIELDS, Task
from treadle_server.store.tables import tasks
from treadle_server.store.types import Id, Instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

STATUS = {str(status): status for status in Status}
REASON: dict[str | None, Reason | None] = {None: None} | {str(reason): reason for reason in Reason}

_IDS = tuple(i for i, name in enumerate(TASK_FIELDS) if tasks.c[name].type is Id)
_INSTANTS = tuple(i for i, name in enumerate(TASK_FIELDS) if isinstance(tasks.c[name].type, Instant))
_BOOLEANS = tuple(i for i, name in enumerate(TASK_FIELDS) if isinstance(tasks.c[name].type, Boolean))
_GOES_FIRST = TASK_FIELDS.index("goes_first")
_STATUS = TASK_FIELDS.index("status")
_REASON = TASK_FIELDS.index("reason")


AS_PENDING = {
    "status": "'pending'", "blocked": "0", "unfenced": "0", "parked": "0", "cancel_requested": "0", "settled": "0",
    "claimed_at": "NULL", "started_at": "NULL", "completed_at": "NULL", "taken_until": "NULL", "next_retry_at": "NULL",
    "result": "NULL", "progress": "NULL",
}  # fmt: skip
"""What stands in the columns of a claimable task, or is put there by its claim, as SQL."""

_HEAD_INSTANTS = tuple(i for i in _INSTANTS if TASK_FIELDS[i] not in AS_PENDING)


def micros(instant: datetime) -> int:
    """Return the instant as SQLite keeps it: microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """Return what SQLite kept as an instant."""
    return _EPOCH + timedelta(microseconds=value)


def task_of(row: Sequence[Any]) -> Task:
    """Return a row of every column of `tasks`, in their order."""
    values = list(row)
    for i in _INSTANTS:
        if (value := values[i]) is not None:
            values[i] = _EPOCH + timedelta(microseconds=value)
    for i in _BOOLEANS:
        values[i] = values[i] == 1
    values[_STATUS] = STATUS[values[_STATUS]]
    values[_REASON] = REASON[values[_REASON]]
    return Task(*values)


def head_of(row: Sequence[Any]) -> Task:
    """Return a row of a claimable task, in which what `AS_PENDING` names was not read."""
    values = list(row)
    for i in _HEAD_INSTANTS:
        if (value := values[i]) is not None:
            values[i] = _EPOCH + timedelta(microseconds=value)
    goes_first = values[_GOES_FIRST] == 1
    for i in _BOOLEANS:
        values[i] = False
    values[_GOES_FIRST] = goes_first
    values[_STATUS] = Status.PENDING
    values[_REASON] = REASON[values[_REASON]]
    return Task(*values)


def record_of(row: Sequence[Any]) -> Task:
    """Return a row of every column of `tasks` as PostgreSQL's driver gives it."""
    values = list(row)
    for i in _IDS:
        if (value := values[i]) is not None:
            values[i] = str(value)
    values[_STATUS] = STATUS[values[_STATUS]]
    values[_REASON] = REASON[values[_REASON]]
    return Task(*values)
