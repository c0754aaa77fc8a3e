"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, String, Text, TypeDecorator
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(instant: datetime) -> int:
    """Return the instant as SQLite keeps it: microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """Return what SQLite kept as an instant."""
    return _EPOCH + timedelta(microseconds=value)


class Instant(TypeDecorator[datetime]):
    """An aware UTC instant: `timestamptz` on PostgreSQL, microseconds since 1970 on SQLite, which has no such type."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Pick the column's type."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        return dialect.type_descriptor(BigInteger())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Turn an instant into what the driver takes: on SQLite whole microseconds since 1970."""
        if value is None or dialect.name == "postgresql":
            return value
        return micros(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Turn what the driver gives into an aware instant in UTC; None stays None."""
        if value is None or dialect.name == "postgresql":
            return value  # type: ignore[no-any-return]
        return instant(value)


Id = String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
"""A UUID: native on PostgreSQL, its text form on SQLite."""

Json = Text().with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
"""JSON as text in Python, unparsed (see `engine.py`); JSONB on PostgreSQL.

On SQLite a column declared JSON has numeric affinity: it would turn a number of 31 digits into 1e30.
"""

BigKey = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit key; on SQLite it must be spelt INTEGER to be the rowid."""
