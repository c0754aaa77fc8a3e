"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, String, Text, TypeDecorator
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(instant: datetime) -> int:
    """Return the instant as SQLite stores it: microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """Return the instant that SQLite stored."""
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
        """Convert an instant to the driver's value: on SQLite whole microseconds since 1970."""
        if value is None or dialect.name == "postgresql":
            return value
        return micros(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Convert the driver's value to an aware instant in UTC; None stays None."""
        if value is None or dialect.name == "postgresql":
            return value  # type: ignore[no-any-return]
        return instant(value)


Id = String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
"""A UUID: native on PostgreSQL, its text form on SQLite."""

Json = Text().with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
"""JSON as unparsed text in Python (see `connections.py`); JSONB on PostgreSQL.

On SQLite a column declared as JSON has numeric affinity, and would turn a number of 31 digits into 1e30.
"""

BigKey = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit key; on SQLite it must be declared INTEGER to be the rowid."""
