"""What the relay reads and writes of the outbox: the next rows, and what became of them."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    LargeBinary,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    func,
    inspect,
    select,
    type_coerce,
    update,
)
from sqlalchemy.dialects import sqlite

from treadle.errors import NoOutbox

LOCKING: Final = frozenset({"postgresql", "mysql", "mariadb"})
"""Databases whose rows a relay can lock so that another one takes those behind them (SKIP LOCKED)."""

BEFORE_ALL: Final = -(2**63)
"""A place before every row's: who gives numbers of his own may give 0."""

MOST_CHARACTERS: Final = 8_000_000
"""Text of the bodies that are held in memory at once, unless a single one is longer."""


@dataclass(frozen=True, slots=True)
class Row:
    """A submit in the outbox. What in SQLite is no UTF-8 stands here as bytes."""

    seq: int
    """Its place: rows are handed over in this order."""
    id: str
    """The task's id."""
    room: str
    """The room that it is submitted from."""
    job: str
    """`room:category:name`."""
    body: str
    """The payload and the options, as JSON."""
    registration: str | None
    """What registers the job where it is missing, as JSON."""
    created_at: datetime | None
    """When it was written, by the writer's clock; aware, UTC. None: what stands there, in SQLite, is no instant."""
    refused_at: datetime | None = None
    """When the server refused it for good; aware, UTC."""
    problem: dict[str, Any] | None = None
    """With which problem (RFC 9457)."""


class _WhateverIsThere(sqlite.DATETIME):
    """An instant of SQLite's, whose column takes numbers and words too: what is none is read as null.

    It may come as bytes, for so the relay reads it. The table's own columns are not of it: a migration that is made of
    them names their types, and only SQLAlchemy's are there.
    """

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None]:
        """Return what reads a value."""
        reading = super().result_processor(dialect, coltype)

        def read(value: Any) -> datetime | None:
            try:
                return None if reading is None else reading(value.decode() if isinstance(value, bytes) else value)
            except (TypeError, ValueError):
                return None

        return read


def utc_now() -> datetime:
    """Return the instant as the table keeps it: in UTC, without a zone, which not every database has."""
    return datetime.now(UTC).replace(tzinfo=None)


def check_table(connection: Connection, table: Table) -> None:
    """Raise `NoOutbox` when the table is not there."""
    if not inspect(connection).has_table(table.name, schema=connection.schema_for_object(table)):
        raise NoOutbox(
            f"the database has no table {table.fullname}: create it with treadle.outbox.create_table, with your"
            " migrations, or by what `treadle outbox ddl` prints"
        )


def last_waiting(connection: Connection, table: Table) -> int:
    """Return the highest number of a row that waits, else the place before all."""
    last: int | None = connection.scalar(select(func.max(table.c.seq)).where(table.c.refused_at.is_(None)))
    return BEFORE_ALL if last is None else last


def take(connection: Connection, table: Table, after: int, last: int, most: int) -> list[Row]:
    """Return the rows behind `after` that wait, up to `last`, in order: at most `most`, fewer where bodies are long.

    Where the database can, they are locked until the transaction ends, and those that another relay has are left out.
    """
    c = table.c
    waits = (c.refused_at.is_(None), c.seq > after, c.seq <= last)
    heads = select(c.seq, func.length(c.body)).where(*waits).order_by(c.seq).limit(most)
    if connection.dialect.name in LOCKING:
        heads = heads.with_for_update(skip_locked=True)
    chosen: list[int] = []
    characters = 0
    for seq, length in connection.execute(heads):
        characters += length or 0
        if chosen and characters > MOST_CHARACTERS:
            break
        chosen.append(seq)
    if not chosen:
        return []
    found = connection.execute(select(*readable(connection, table)).where(c.seq.in_(chosen)).order_by(c.seq))
    return [as_row(one) for one in found]


def note_outcomes(
    connection: Connection, table: Table, handed: Sequence[Row], refused: Collection[tuple[Row, Any]]
) -> None:
    """Delete the rows that were handed over, and note with which problem others were refused."""
    c = table.c
    # Bytes that stand in SQLite in place of a text are equal to no text, and what is no UTF-8 is given to it as bytes.
    id_, written = (cast(c.id, LargeBinary), _bytes_of) if _keeps_whatever(connection) else (c.id, str)
    if handed:
        # By their ids too: where numbers begin anew in an emptied table, these may be other rows by now.
        same = and_(c.seq.in_([row.seq for row in handed]), id_.in_([written(row.id) for row in handed]))
        connection.execute(delete(table).where(same))
    if refused:
        noted = update(table).where(c.seq == bindparam("of_seq"), id_ == bindparam("of_id"))
        now = utc_now()
        connection.execute(
            noted.values(refused_at=bindparam("at"), problem=bindparam("why")),
            [{"of_seq": row.seq, "of_id": written(row.id), "at": now, "why": json.dumps(why)} for row, why in refused],
        )


def readable(connection: Connection, table: Table, *names: str) -> list[ColumnElement[Any]]:
    """Return these columns, else all of a row's, as they are to be read.

    SQLite's as bytes: drivers fail at text that is no UTF-8, and one such text would keep all rows that are read with
    it from being handed over.
    """
    columns: list[ColumnElement[Any]] = [table.c[name] for name in names or (field.name for field in fields(Row))]
    if not _keeps_whatever(connection):
        return columns
    return [column if column.primary_key else _as_bytes(column).label(column.name) for column in columns]


def _as_bytes(column: ColumnElement[Any]) -> ColumnElement[Any]:
    kind = _WhateverIsThere() if isinstance(column.type, DateTime) else column.type  # type: ignore[no-untyped-call]
    return type_coerce(cast(column, LargeBinary), kind)


def text_of(read: Any) -> Any:
    """Return the text of a column that was read, which SQLite gives as bytes; such that are no UTF-8 as they are."""
    try:
        return read.decode() if isinstance(read, bytes) else read
    except UnicodeDecodeError:
        return read


def not_utf8(row: Row) -> str | None:
    """Return which of a row's texts is no UTF-8, if one is."""
    names = ("id", "room", "job", "body", "registration")
    return next((name for name in names if isinstance(getattr(row, name), bytes)), None)


def _bytes_of(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _keeps_whatever(connection: Connection) -> bool:
    """Return whether a column of texts may hold what is none."""
    return connection.dialect.name == "sqlite"


def as_row(found: Any) -> Row:
    """Return a row as it was read."""
    return Row(
        seq=found.seq,
        id=text_of(found.id),
        room=text_of(found.room),
        job=text_of(found.job),
        body=text_of(found.body),
        registration=text_of(found.registration),
        created_at=_aware(found.created_at),
        refused_at=_aware(found.refused_at),
        problem=_problem(found.problem),
    )


def _problem(written: Any) -> dict[str, Any] | None:
    """Return the problem of a row; what another program has written there, and is none, is what it says."""
    try:
        problem = json.loads(written or "null")
    except (TypeError, ValueError, RecursionError):
        problem = written.decode(errors="replace") if isinstance(written, bytes) else written
    return problem if problem is None or isinstance(problem, dict) else {"detail": str(problem)}


def _aware(read: datetime | None) -> datetime | None:
    if read is None or read.tzinfo is not None:
        return read
    return read.replace(tzinfo=UTC)
