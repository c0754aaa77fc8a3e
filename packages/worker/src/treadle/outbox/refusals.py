"""What people do with the rows of the outbox: look at them, try refused ones again, drop them."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select, update

from treadle.ids import id_text
from treadle.outbox.rows import Row, as_row, check_table, readable, text_of
from treadle.outbox.table import TABLE
from treadle.wire.ids import GivenId


@dataclass(frozen=True, slots=True)
class Listed:
    """How the outbox stands."""

    waiting: int
    """Rows that are still to be handed over."""
    refused: int
    """Rows that the server refused for good."""
    rows: list[Row]
    """The first of those that were asked for."""


def listed(connection: Connection, *, waiting: bool = False, limit: int = 50, table: Table = TABLE) -> Listed:
    """Return the counts, and the rows that were refused, or those that wait, in order; raises `NoOutbox`.

    In an async program `await connection.run_sync(outbox.listed)`.
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
    """Have refused rows tried again, those of these tasks or with None all; return how many. Raises `NoOutbox`."""
    check_table(connection, table)
    again = update(table).where(*_refused(table, ids)).values(refused_at=None, problem=None)
    return connection.execute(again).rowcount


def drop(connection: Connection, ids: Collection[GivenId] | None, *, table: Table = TABLE) -> int:
    """Delete refused rows, those of these tasks or with None all, and return how many. Raises `NoOutbox`.

    What still waits is left: it may be with the server already.
    """
    check_table(connection, table)
    return connection.execute(delete(table).where(*_refused(table, ids))).rowcount


def refused_ids(connection: Connection, *, table: Table = TABLE) -> list[str]:
    """Return the ids of the tasks whose rows were refused; raises `NoOutbox`."""
    check_table(connection, table)
    found = connection.scalars(select(*readable(connection, table, "id")).where(*_refused(table, None)))
    return [id_text(text_of(one)) for one in found]


def _refused(table: Table, ids: Collection[GivenId] | None) -> list[ColumnElement[bool]]:
    refused = table.c.refused_at.is_not(None)
    return [refused] if ids is None else [refused, func.lower(table.c.id).in_(sorted(map(id_text, ids)))]
