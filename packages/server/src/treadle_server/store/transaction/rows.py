"""Rows that are put in, and written anew whole: every column as the domain's object has it, under the same name."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, cast

from sqlalchemy import Column, Dialect, Table, Update, bindparam, update
from sqlalchemy.dialects import postgresql, sqlite

from treadle_server.store.base import Tx
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.writer import MOST_TEXTS, InlineConnection
from treadle_server.store.tables import meta
from treadle_server.store.types import micros

_SQLITE: Dialect = sqlite.dialect()
_POSTGRES: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]


async def insert_rows(tx: Tx, table: Table, names: Sequence[str], new: Iterable[Any], more: str = "") -> None:
    """Insert a row for each of the objects, as `insert_tuples` does."""
    await insert_tuples(tx, table, names, map(attrgetter(*names), new), more)


async def insert_tuples(
    tx: Tx, table: Table, names: Sequence[str], rows: Iterable[tuple[Any, ...]], more: str = ""
) -> None:
    """Insert rows, each with the values of these columns; `more` is what becomes of those that are there already.

    Without it IntegrityError is raised when one is there, by its key or its name.
    """
    values = list(rows)
    if not values:
        return
    if isinstance(tx.connection, InlineConnection):
        kept = [[micros(value) if isinstance(value, datetime) else value for value in row] for row in values]
        tx.connection.run_many(_sqlite_insert(table, tuple(names), more), kept)
    else:
        columns = [list(column) for column in zip(*values, strict=True)]
        await cast("DirectConnection", tx.connection).change(_pg_insert(table, tuple(names), more), columns)


async def put_meta(tx: Tx, key: str, value: str) -> None:
    """Note a fact about the database, in the place of what was noted of it before."""
    more = "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    await insert_tuples(tx, meta, ("key", "value"), [(key, value)], more)


# The texts have names of columns only, and what the program itself adds; every value is bound.


@lru_cache(maxsize=MOST_TEXTS)
def _sqlite_insert(table: Table, names: tuple[str, ...], more: str) -> str:
    columns = ", ".join(map(_SQLITE.identifier_preparer.quote, names))
    return f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(names))}) {more}"  # noqa: S608


@lru_cache(maxsize=MOST_TEXTS)
def _pg_insert(table: Table, names: tuple[str, ...], more: str) -> str:
    quoted = {_POSTGRES.identifier_preparer.quote(name): table.c[name] for name in names}
    columns, arrays = ", ".join(quoted), ", ".join(pg_array(column, i) for i, column in enumerate(quoted.values(), 1))
    values = ", ".join(f"v.{name}{pg_cast(column)}" for name, column in quoted.items())
    return f"INSERT INTO {table.name} ({columns}) SELECT {values} FROM unnest({arrays}) AS v ({columns}) {more}"  # noqa: S608


def pg_kind(column: Column[Any]) -> str:
    """Return of which type PostgreSQL is sent the column's values: text without its length, and JSON as text.

    The column itself looks at the length.
    """
    kind = column.type.compile(dialect=_POSTGRES)
    return "text" if kind == "JSONB" or kind.startswith("VARCHAR") else kind


def pg_array(column: Column[Any], number: int) -> str:
    """Return the parameter of this number, an array of the column's values."""
    return f"${number}::{pg_kind(column)}[]"


def pg_cast(column: Column[Any]) -> str:
    """Return what makes the column's value of one that was sent."""
    return "::jsonb" if column.type.compile(dialect=_POSTGRES) == "JSONB" else ""


@cache
def _update(table: Table, names: tuple[str, ...], key: str) -> Update:
    found = update(table).where(table.c[key] == bindparam("_key"))
    return found.values({name: bindparam(name) for name in names if name != key})


async def update_rows(tx: Tx, table: Table, names: tuple[str, ...], changed: Iterable[Any], *, key: str) -> None:
    """Write every column of the objects' rows, which are locked, and found by the column `key`."""
    values = attrgetter(*names)
    rows = [dict(zip(names, values(one), strict=True)) for one in changed]
    if rows:
        await tx.connection.execute(_update(table, names, key), [row | {"_key": row.pop(key)} for row in rows])
