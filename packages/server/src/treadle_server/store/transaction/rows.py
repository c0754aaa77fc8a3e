"""Rows that are put in and written anew whole: every column as the domain's object has it, under the same name."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Table, bindparam, insert, update

from treadle_server.store.base import Tx


async def insert_rows(tx: Tx, table: Table, names: Sequence[str], new: Iterable[Any]) -> None:
    """Insert a row for each of the objects. Raises IntegrityError when one is there already, by its key or its name."""
    if rows := [{name: getattr(one, name) for name in names} for one in new]:
        await tx.connection.execute(insert(table), rows)


async def update_rows(tx: Tx, table: Table, names: Sequence[str], changed: Iterable[Any], *, key: str) -> None:
    """Write every column of the objects' rows, which are locked, and found by the column `key`."""
    written = [name for name in names if name != key]
    if rows := [{"_key": getattr(one, key)} | {name: getattr(one, name) for name in written} for one in changed]:
        statement = update(table).where(table.c[key] == bindparam("_key"))
        await tx.connection.execute(statement.values({name: bindparam(name) for name in written}), rows)
