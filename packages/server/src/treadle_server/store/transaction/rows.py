"""Insert and update rows of domain objects, whose fields have the names of the columns."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Dialect, Table, Update, bindparam, delete, update
from sqlalchemy.dialects import postgresql, sqlite

from treadle_server.domain.artifacts import ARTIFACT_FIELDS, Artifact
from treadle_server.domain.flows import Flow
from treadle_server.domain.jobs import JOB_FIELDS, WORKER_FIELDS, Job, Lane, Worker
from treadle_server.domain.limits import LIMIT_FIELDS, Limit
from treadle_server.domain.schedules import SCHEDULE_FIELDS, Schedule
from treadle_server.domain.steps import MESSAGE_FIELDS, STEP_FIELDS, Message, Step
from treadle_server.domain.tasks import RUN_FIELDS, Hold, Run
from treadle_server.store import tables
from treadle_server.store.base import LostUpdate, Tx
from treadle_server.store.sqlite.writer import MOST_TEXTS
from treadle_server.store.types import micros

MOST_AT_ONCE = 1000
"""Rows that are inserted before the event loop gets a turn: some 10 ms of work. One submit may have millions of tag
rows."""

_SQLITE: Dialect = sqlite.dialect()
_POSTGRES: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]


class _Kept(NamedTuple):
    """The table of a kind of object, the fields in its columns of the same names, and the immutable key."""

    table: Table
    fields: tuple[str, ...]
    key: tuple[str, ...]


_KEPT: Mapping[type, _Kept] = {
    Artifact: _Kept(tables.artifacts, ARTIFACT_FIELDS, ("id",)),
    Flow: _Kept(tables.flows, Flow._fields, ("id",)),
    Hold: _Kept(tables.holds, tuple(tables.holds.c.keys()), ("task_seq", "run_id")),
    Job: _Kept(tables.jobs, JOB_FIELDS, ("num",)),
    Lane: _Kept(tables.lanes, tuple(tables.lanes.c.keys()), ("id",)),
    Limit: _Kept(tables.limits, LIMIT_FIELDS, ("num",)),
    Message: _Kept(tables.task_messages, MESSAGE_FIELDS, ("task_seq", "number")),
    Run: _Kept(tables.runs, RUN_FIELDS, ("task_seq", "run_id")),
    Schedule: _Kept(tables.schedules, SCHEDULE_FIELDS, ("id",)),
    Step: _Kept(tables.task_steps, STEP_FIELDS, ("task_seq", "number")),
    Worker: _Kept(tables.workers, WORKER_FIELDS, ("id",)),
}


async def insert_objects(tx: Tx, new: Iterable[object], more: str = "") -> None:
    """Insert rows for objects of one kind, as `insert_tuples` does."""
    if found := list(new):
        table, fields, _ = _KEPT[type(found[0])]
        await insert_rows(tx, table, fields, found, more)


async def update_objects(tx: Tx, changed: Iterable[object], *names: str) -> None:
    """Update the rows, which are locked, of objects of one kind: the named fields, or all."""
    if found := list(changed):
        table, fields, key = _KEPT[type(found[0])]
        names = names or tuple(name for name in fields if name not in key)
        await update_tuples(tx, table, key, names, map(attrgetter(*key, *names), found))


async def delete_objects(tx: Tx, kind: type, keys: Collection[Any]) -> None:
    """Delete rows of objects of the kind by key; a key of several columns is a tuple."""
    if keys:
        table, _, key = _KEPT[kind]
        given = [f"_{name}" for name in key]
        rows = [dict(zip(given, one if len(key) > 1 else (one,), strict=True)) for one in sorted(keys)]
        await tx.connection.execute(delete(table).where(*_by(table, key)), rows)


async def insert_rows(tx: Tx, table: Table, names: Sequence[str], new: Iterable[Any], more: str = "") -> None:
    """Insert a row for each object, as `insert_tuples` does."""
    await insert_tuples(tx, table, names, map(attrgetter(*names), new), more)


async def insert_tuples(
    tx: Tx, table: Table, names: Sequence[str], rows: Iterable[tuple[Any, ...]], more: str = ""
) -> None:
    """Insert rows of values of the named columns; `more` is an ON CONFLICT clause.

    Without it, `IntegrityError` is raised when a row's key or name is taken, and on PostgreSQL `LostUpdate` when a row
    was not written, as when a trigger returns NULL for it.
    """
    given = iter(rows)
    while values := list(islice(given, MOST_AT_ONCE)):
        if tx.dialect == "sqlite":
            kept = [[micros(value) if isinstance(value, datetime) else value for value in row] for row in values]
            tx.inline.run_many(_sqlite_insert(table, tuple(names), more), kept)
        else:
            columns = [list(column) for column in zip(*values, strict=True)]
            written = await tx.direct.change(_pg_insert(table, tuple(names), more), columns)
            if written < len(values) and not more:
                raise LostUpdate(f"{len(values) - written} of {len(values)} rows of {table} were not written")
        if len(values) == MOST_AT_ONCE:
            await asyncio.sleep(0)


async def put_meta(tx: Tx, key: str, value: str) -> None:
    """Write a fact about the database, replacing its earlier value."""
    more = "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    await insert_tuples(tx, tables.meta, ("key", "value"), [(key, value)], more)


# The texts contain only names of columns and the program's own additions; every value is bound.


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
    """Return the type in which a column's values are sent to PostgreSQL: text without a length, and JSON as text.

    The column itself checks the length.
    """
    kind = column.type.compile(dialect=_POSTGRES)
    return "text" if kind == "JSONB" or kind.startswith("VARCHAR") else kind


def pg_array(column: Column[Any], number: int) -> str:
    """Return the parameter with this number as an array of the column's values."""
    return f"${number}::{pg_kind(column)}[]"


def pg_cast(column: Column[Any]) -> str:
    """Return the cast from the type in which the column's values are sent."""
    return "::jsonb" if column.type.compile(dialect=_POSTGRES) == "JSONB" else ""


async def update_tuples(
    tx: Tx,
    table: Table,
    key: tuple[str, ...],
    names: tuple[str, ...],
    rows: Iterable[tuple[Any, ...]],
    guards: tuple[str, ...] = (),
) -> int:
    """Update the named columns, and return how many rows were changed.

    Each tuple begins with the values of the row's `key`, and those that its `guards` must still have. Without guards
    the rows must be locked.
    """
    if not (values := list(rows)):
        return 0
    if tx.dialect == "postgresql":
        columns = [list(column) for column in zip(*values, strict=True)]
        return await tx.direct.change(_pg_update(table, key, guards, names), columns)
    found = (*key, *guards)
    given = (*(f"_{name}" for name in found), *names)
    bound = [dict(zip(given, row, strict=True)) for row in values]
    return (await tx.connection.execute(_update(table, found, names), bound)).rowcount


@cache
def _update(table: Table, found: tuple[str, ...], names: tuple[str, ...]) -> Update:
    return update(table).where(*_by(table, found)).values({name: bindparam(name) for name in names})


def _by(table: Table, key: Iterable[str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(f"_{name}") for name in key]


@lru_cache(maxsize=MOST_TEXTS)
def _pg_update(table: Table, key: tuple[str, ...], guards: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Return PostgreSQL's statement, which takes each column as an array.

    Updating rows one by one took the driver and the backend 0.15 ms each: when a worker renewed its leases, when
    thousands of tasks went to sleep, or when a task that others depend on ended.
    """
    quote = _POSTGRES.identifier_preparer.quote
    columns = {f"_{name}": table.c[name] for name in (*key, *guards)} | {quote(name): table.c[name] for name in names}
    arrays = ", ".join(pg_array(column, i) for i, column in enumerate(columns.values(), 1))
    sets = ", ".join(f"{quote(name)} = v.{quote(name)}{pg_cast(table.c[name])}" for name in names)
    # The form that makes PostgreSQL look up each row by its key (`hot.py` says why).
    found = [f"{table}.{name} = ANY (ARRAY[v._{name}])" for name in key]
    found += [f"{table}.{name} = v._{name}" for name in guards]
    # Names of tables and columns only; every value is bound.
    return f"UPDATE {table} SET {sets} FROM unnest({arrays}) AS v ({', '.join(columns)}) WHERE {' AND '.join(found)}"  # noqa: S608
