"""What people do with the rows of the outbox: look at them, retry refused ones, drop them."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, Delete, Table, Update, delete, func, select, update

from treadle.ids import id_text
from treadle.outbox.rows import Row, among, as_row, check_table, readable, text_of
from treadle.outbox.table import TABLE
from treadle.wire.ids import GivenId


@dataclass(frozen=True, slots=True)
class Listed:
    """The state of the outbox."""

    waiting: int
    """How many rows are still to be handed over."""
    refused: int
    """How many rows the server refused for good."""
    rows: list[Row]
    """The first of the requested rows."""


def listed(connection: Connection, *, waiting: bool = False, limit: int = 50, table: Table = TABLE) -> Listed:
    """Return the counts, and the refused rows, or with `waiting` the waiting ones, in order; raises `NoOutbox`.

    In async code `await connection.run_sync(outbox.listed)`.
    """
    check_table(connection, table)
    is_waiting = table.c.refused_at.is_(None)
    found = connection.execute(
        select(*readable(connection, table))
        .where(is_waiting if waiting else ~is_waiting)
        .order_by(table.c.seq)
        .limit(limit)
    )
    waits, refusals = (
        connection.scalar(select(func.count()).select_from(table).where(which)) or 0
        for which in (is_waiting, ~is_waiting)
    )
    return Listed(waits, refusals, [as_row(one) for one in found])


def retry(connection: Connection, ids: Collection[GivenId] | None, *, table: Table = TABLE) -> int:
    """Have refused rows tried again, those of the given tasks or (None) all; return how many. Raises `NoOutbox`."""
    return _change(connection, table, update(table).values(refused_at=None, problem=None), ids)


def drop(connection: Connection, ids: Collection[GivenId] | None, *, table: Table = TABLE) -> int:
    """Delete refused rows, those of the given tasks or (None) all, and return how many. Raises `NoOutbox`.

    Waiting rows are kept, because the server may have them already.
    """
    return _change(connection, table, delete(table), ids)


def refused_ids(connection: Connection, *, table: Table = TABLE) -> list[str]:
    """Return the ids of the tasks whose rows were refused; raises `NoOutbox`."""
    check_table(connection, table)
    found = connection.scalars(select(*readable(connection, table, "id")).where(table.c.refused_at.is_not(None)))
    return [id_text(text_of(one)) for one in found]


def _change(connection: Connection, table: Table, change: Update | Delete, ids: Collection[GivenId] | None) -> int:
    check_table(connection, table)
    refused = change.where(table.c.refused_at.is_not(None))
    if ids is None:
        return connection.execute(refused).rowcount
    return sum(connection.execute(refused.where(one)).rowcount for one in among(table.c.id, set(map(id_text, ids))))
