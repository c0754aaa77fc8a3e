"""Runs that have had their time: those not started in theirs, and those that run longer than their timeout.

When that is, is the sum of an instant and of a number of seconds, the task's own. Two partial indexes hold these sums,
so that of however many runs are leased only those are read whose time has come. They stand in migration 0009 alone:
SQLAlchemy compares no indexes of expressions.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Select, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import ColumnElement

from treadle.wire.names import INTERNAL
from treadle_server.store.base import Dialect
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.types import Instant

FROM_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
"""What `stamped` is when no lease was ever stamped anew."""

_UNSTARTED = f"status = 'claimed' AND job_name NOT LIKE '{INTERNAL}:%'"
"""As the index says it. What the server's own executors have claimed has no time to start in."""

_LIMITED = "status = 'running' AND timeout IS NOT NULL"


def _sum(dialect: Dialect, since: str, seconds: str) -> str:
    """Return SQL of when so many seconds have passed since: microseconds on SQLite, a UTC timestamp on PostgreSQL.

    PostgreSQL indexes no sum of a `timestamptz`, which would depend on the session's time zone.
    """
    if dialect == "sqlite":
        return f"({since} + {seconds} * 1000000)"
    return f"(timezone('UTC', {since}) + {seconds} * interval '1 second')"


def _moment(dialect: Dialect, name: str) -> str:
    return f":{name}" if dialect == "sqlite" else f"timezone('UTC', :{name})"


def _past(dialect: Dialect, since: str, seconds: str, condition: str) -> Select[tuple[object, ...]]:
    """Return the statement that finds what is past its time; a run of before `stamped` has had its time since then."""
    ends, now = _sum(dialect, since, seconds), _moment(dialect, "now")
    anew = _sum(dialect, ":stamped", seconds)
    return (
        select_tasks(dialect)
        .where(text(condition), _bound(f"{ends} <= {now}"), _bound(f"({since} >= :stamped OR {anew} <= {now})"))
        .order_by(text(ends))
    )


def _bound(condition: str) -> ColumnElement[bool]:
    names = [name for name in ("now", "stamped") if f":{name}" in condition]
    return text(condition).bindparams(*(bindparam(name, type_=Instant) for name in names))  # type: ignore[return-value]


def unstarted(dialect: Dialect) -> Select[tuple[object, ...]]:
    """Return the statement that finds runs which were claimed and not started in time, by `now` and `stamped`."""
    return _past(dialect, "claimed_at", "start_timeout", _UNSTARTED)


def overlong(dialect: Dialect) -> Select[tuple[object, ...]]:
    """Return the statement that finds runs past their timeout, by `now` and `stamped`."""
    return _past(dialect, "started_at", "timeout", _LIMITED)


async def next_timeout(connection: AsyncConnection, after: datetime) -> datetime | None:
    """Return when the next of the running tasks is past its timeout, later than `after`."""
    dialect: Dialect = "sqlite" if connection.dialect.name == "sqlite" else "postgresql"
    ends = _sum(dialect, "started_at", "timeout")
    statement = (
        text(
            f"SELECT started_at, timeout FROM tasks WHERE {_LIMITED} AND {ends} > {_moment(dialect, 'after')} "  # noqa: S608
            f"ORDER BY {ends} LIMIT 1"
        )
        .bindparams(bindparam("after", type_=Instant))
        .columns(started_at=Instant)
    )
    row = (await connection.execute(statement, {"after": after})).first()
    return None if row is None else row[0] + timedelta(seconds=row[1])
