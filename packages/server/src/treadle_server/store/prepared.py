"""Statements that are built once: the drivers get them as text.

Building a statement anew for each call costs ten times what SQLite needs to run it: a lone submit took 4.4 ms of
processor time with twelve such statements, and takes 0.5 ms without.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Select
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningUpdate

from treadle_server.store.base import Dialect, Tx
from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.writer import InlineConnection
from treadle_server.store.translated import named

Rows = Sequence[Sequence[Any]]
Query = Select[Any] | ReturningUpdate[Any]

_Compiled = tuple[str, tuple[str, ...], Mapping[str, Any]]
"""The text, the names of its parameters in their order, and the values of those that are constants."""


class Prepared:
    """A query, or an update that returns rows.

    Its rows come as the driver gives them: on SQLite instants are numbers, and booleans too; on PostgreSQL UUIDs are
    objects.
    """

    def __init__(self, build: Callable[[Dialect], Query], *, is_apart: bool = False) -> None:
        """What `is_apart` reads nothing that PostgreSQL's transaction may have postponed."""
        self.build = build
        self._is_apart = is_apart
        self._texts: dict[Dialect, _Compiled] = {}

    async def rows(self, tx: Tx, **parameters: Any) -> Rows:
        """Run it and return every row."""
        text, names, constants = self._compiled(tx.dialect)
        values = tuple(parameters[name] if name in parameters else constants[name] for name in names)
        if isinstance(tx.connection, InlineConnection):
            return tx.connection.fetch(text, values)
        return await cast("DirectConnection", tx.connection).fetch(text, values, is_apart=self._is_apart)

    async def rows_beside(self, connection: AsyncConnection, dialect: Dialect, **parameters: Any) -> Rows:
        """Run it on PostgreSQL's driver beside the writer, on the connection that is lent, and return every row."""
        text, names, constants = self._compiled(dialect)
        driver: Any = (await connection.get_raw_connection()).driver_connection
        with named(text):
            rows: Rows = await driver.fetch(text, *({**constants, **parameters}[name] for name in names))
            return rows

    def _compiled(self, dialect: Dialect) -> _Compiled:
        """Return the statement as the driver takes it."""
        found = self._texts.get(dialect)
        if found is None:
            spoken: Any = sqlite.dialect() if dialect == "sqlite" else asyncpg.dialect()  # type: ignore[no-untyped-call]
            compiled = self.build(dialect).compile(dialect=spoken)
            constants = {name: value for name, value in compiled.params.items() if value is not None}
            found = self._texts[dialect] = (str(compiled), tuple(compiled.positiontup or ()), constants)
        return found
