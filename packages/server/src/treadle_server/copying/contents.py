"""What is copied of each table, and how it is read, so that it is the same from both databases."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, Table, cast, func, inspect, select

from treadle_server.errors import ValidationFailed
from treadle_server.store.base import Dialect
from treadle_server.store.postgres.exclusive import KEY
from treadle_server.store.tables import count_deltas, lane_counts, meta, metadata, servers
from treadle_server.store.transaction.counts import all_counts

LEFT_OUT = frozenset({count_deltas, servers})
"""Changes of counts, which are added up on the way, and servers, of which none runs."""

TABLES: Sequence[Table] = tuple(table for table in metadata.sorted_tables if table not in LEFT_OUT)
"""What is copied: a table stands behind those whose rows its own name."""

MOST_ROWS = 1000
"""Rows of a batch."""

MOST_CHARACTERS = 4_000_000
"""Text of a batch, unless its last row has more."""

Row = Sequence[Any]


def rows_of(table: Table, dialect: Dialect) -> Select[Any]:
    """Return the statement that reads what is copied of a table, by its primary key, along which it is written too."""
    if table is lane_counts:
        counts = all_counts(dialect)
        keys = (counts.c.lane, counts.c.status, counts.c.priority)
        return select(*keys, cast(func.sum(counts.c.n), BigInteger)).group_by(*keys).order_by(*keys)
    return _copied(table, select(table)).order_by(*table.primary_key.columns)


def count_of(table: Table, dialect: Dialect) -> Select[Any]:
    """Return the statement that counts the rows which `rows_of` reads."""
    return select(func.count()).select_from(rows_of(table, dialect).order_by(None).subquery())


def _copied(table: Table, found: Select[Any]) -> Select[Any]:
    # On PostgreSQL a row names the server that is the only one there.
    return found.where(meta.c.key != KEY) if table is meta else found


def check_empty(connection: Connection, name: str) -> None:
    """Raise `ValidationFailed` unless nothing would be lost by a copy to this database, called `name`."""
    there = set(inspect(connection).get_table_names())
    ours = [table for table in TABLES if table.name in there]
    if ours and "alembic_version" not in there:
        raise ValidationFailed(
            f"{name} has a table {ours[0].name} that is not Treadle's: copy to a database of its own"
        )
    for table in ours:
        if connection.execute(_copied(table, select(1).select_from(table)).limit(1)).first() is not None:
            raise ValidationFailed(
                f"{name} is not empty: there are rows in its table {table.name}; nothing was changed, copy to a new"
                " database (and start no server on it before: that creates rows too)"
            )


async def batched(rows: AsyncIterator[Row]) -> AsyncIterator[list[Row]]:
    """Give rows in batches that fit into memory."""
    batch: list[Row] = []
    characters = 0
    async for row in rows:
        batch.append(row)
        characters += sum(len(value) for value in row if type(value) is str)
        if len(batch) >= MOST_ROWS or characters >= MOST_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


async def asynchronous(rows: Iterator[Row]) -> AsyncIterator[Row]:
    """Give one by one what is not asynchronous."""
    for row in rows:
        yield row
