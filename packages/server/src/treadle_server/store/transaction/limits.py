"""Find runs that are past a time limit: those not started in time, and those that run longer than their timeout.

The time limit is the sum of an instant and the task's own number of seconds. Two partial indexes have these sums, so
that only the runs whose time has come are read, however many are leased. The indexes are defined only in migration
0009, because alembic does not compare indexes of expressions.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.names import INTERNAL
from treadle_server.store.bound_lists import Spelt
from treadle_server.store.tables import tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.types import Instant

FROM_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
"""The value of `stamped` when leases were never renewed as a whole."""

_UNSTARTED = f"status = 'claimed' AND job_name NOT LIKE '{INTERNAL}:%'"
"""Spelt as in the index. Tasks of the server's own executors have no time limit for starting."""

_LIMITED = "status = 'running' AND timeout IS NOT NULL"


class _End(Spelt):
    """The instant a number of seconds after another: microseconds on SQLite, a UTC timestamp on PostgreSQL.

    PostgreSQL can't index a sum of a `timestamptz`, which depends on the session's time zone.
    """

    sqlite = "({0} + {1} * 1000000)"
    postgresql = "(timezone('UTC', {0}) + {1} * interval '1 second')"


class _Moment(Spelt):
    """An instant, for comparison with an `_End`."""

    sqlite = "{0}"
    postgresql = "timezone('UTC', {0})"


def _past(since: ColumnElement[Any], seconds: ColumnElement[Any], condition: str) -> Select[Any]:
    """Return the statement that finds runs past their time; for runs from before `stamped` it counts from then."""
    ends, now = _End(since, seconds), _Moment(bindparam("now", type_=Instant))
    stamped = bindparam("stamped", type_=Instant)
    return (
        select_tasks()
        .where(text(condition), ends <= now, or_(since >= stamped, _End(stamped, seconds) <= now))
        .order_by(ends)
    )


UNSTARTED = _past(tasks.c.claimed_at, tasks.c.start_timeout, _UNSTARTED)
"""The statement that finds runs which were claimed and not started in time, by `now` and `stamped`."""

OVERLONG = _past(tasks.c.started_at, tasks.c.timeout, _LIMITED)
"""The statement that finds runs past their timeout, by `now` and `stamped`."""

_TIMES_OUT = _End(tasks.c.started_at, tasks.c.timeout)
_NEXT_TIMEOUT = (
    select(tasks.c.started_at, tasks.c.timeout)
    .where(text(_LIMITED), _Moment(bindparam("after", type_=Instant)) < _TIMES_OUT)
    .order_by(_TIMES_OUT)
    .limit(1)
)


async def next_timeout(connection: AsyncConnection, after: datetime) -> datetime | None:
    """Return when the next running task will exceed its timeout, later than `after`."""
    row = (await connection.execute(_NEXT_TIMEOUT, {"after": after})).first()
    return None if row is None else row[0] + timedelta(seconds=row[1])
