"""Statements that are compiled once and passed to the drivers as text.

Building a statement for each call costs ten times what SQLite needs to run it: a lone submit took 4.4 ms of processor
time with twelve such statements, and takes 0.5 ms without.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from sqlalchemy import Column, ColumnElement, Select, TypeDecorator, and_, bindparam, func, select, tuple_
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningDelete, ReturningUpdate

from treadle_server.store.base import Dialect, Tx
from treadle_server.store.bound_lists import NUMBER, TEXT, BoundList
from treadle_server.store.sqlite.writer import InlineConnection, Statements
from treadle_server.store.translated import named

Rows = Sequence[Sequence[Any]]
Query = Select[Any] | ReturningUpdate[Any] | ReturningDelete[Any]


class _Compiled(NamedTuple):
    """A statement in the driver's form."""

    text: str
    names: Sequence[str]
    """Its parameters, in order."""
    constants: Mapping[str, Any]
    """The values of the constant parameters."""
    converters: Mapping[str, Callable[[Any], Any]]
    """Converters to the driver's values, for parameters of our own types: instants and lists."""
    lists: Sequence[str]
    """The parameters that are lists."""

    def values(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values to pass to the driver."""
        values = dict(self.constants)
        for name, value in given.items():
            values[name] = self.converters[name](value) if name in self.converters else value
        return tuple(values[name] for name in self.names)


class Prepared:
    """A prepared query, or a change that returns rows.

    Rows are the driver's own: on SQLite instants and booleans are numbers, on PostgreSQL UUIDs are objects.
    """

    def __init__(self, statement: Query, postgres: Query | None = None, *, is_independent: bool = False) -> None:
        """`postgres` is the statement for PostgreSQL, if it differs.

        `is_independent` says that it reads nothing that PostgreSQL's transaction may have postponed.
        """
        self.statement = statement
        self.postgres = statement if postgres is None else postgres
        self._is_independent = is_independent
        self._compiled: dict[Dialect, _Compiled] = {}

    async def rows(self, tx: Tx, **parameters: Any) -> Rows:
        """Run it and return every row; with an empty list it can match nothing, and is not sent."""
        compiled = self._compiled_for(tx.dialect)
        for name in compiled.lists:
            if not parameters[name]:
                return ()
        values = compiled.values(parameters)
        if tx.dialect == "sqlite":
            return tx.inline.fetch(compiled.text, values)
        return await tx.direct.fetch(compiled.text, values, is_independent=self._is_independent)

    async def rows_on(self, connection: Statements, **parameters: Any) -> Rows:
        """Run it outside the writer, on a connection from `SqlStore.read_in_place`, and return every row."""
        if isinstance(connection, InlineConnection):
            compiled = self._compiled_for("sqlite")
            return connection.fetch(compiled.text, compiled.values(parameters))
        compiled = self._compiled_for("postgresql")
        driver: Any = (await cast("AsyncConnection", connection).get_raw_connection()).driver_connection
        with named(compiled.text):
            rows: Rows = await driver.fetch(compiled.text, *compiled.values(parameters))
            return rows

    def _compiled_for(self, dialect: Dialect) -> _Compiled:
        found = self._compiled.get(dialect)
        if found is None:
            spoken: Any = sqlite.dialect() if dialect == "sqlite" else asyncpg.dialect()  # type: ignore[no-untyped-call]
            compiled = (self.statement if dialect == "sqlite" else self.postgres).compile(dialect=spoken)
            converters = {
                name: partial(parameter.type.process_bind_param, dialect=spoken)
                for parameter, name in compiled.bind_names.items()
                if isinstance(parameter.type, TypeDecorator)
            }
            constants = {name: value for name, value in compiled.params.items() if value is not None}
            lists = [name for one, name in compiled.bind_names.items() if isinstance(one.type, BoundList)]
            found = _Compiled(str(compiled), tuple(compiled.positiontup or ()), constants, converters, lists)
            self._compiled[dialect] = found
        return found


class ByKey(Prepared):
    """A prepared query for the rows with certain keys: on SQLite for one after the other, on PostgreSQL for all."""

    def __init__(
        self,
        key: Sequence[Column[Any]],
        query: Callable[[ColumnElement[bool]], Query],
        postgres: Callable[[ColumnElement[bool]], Query] | None = None,
    ) -> None:
        """`query` makes it from the condition that the key's columns have a wanted value, `postgres` PostgreSQL's."""
        self._names = [column.name for column in key]
        one = [column == bindparam(column.name) for column in key]
        kinds = [BoundList(NUMBER if column.type.python_type is int else TEXT) for column in key]
        lists = [func.unnest(bindparam(column.name, type_=kind)) for column, kind in zip(key, kinds, strict=True)]
        super().__init__(query(and_(*one)), (postgres or query)(tuple_(*key).in_(select(*lists))))

    async def found(self, tx: Tx, keys: Collection[tuple[Any, ...]]) -> Rows:
        """Return the rows with these keys."""
        if not keys:
            return ()
        if tx.dialect == "sqlite":
            each = [dict(zip(self._names, key, strict=True)) for key in sorted(keys)]
            return [row for one in each for row in await self.rows(tx, **one)]
        return await self.rows(tx, **dict(zip(self._names, zip(*sorted(keys), strict=True), strict=True)))
