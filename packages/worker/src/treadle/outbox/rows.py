"""The relay's queries on the outbox: the next rows, and what became of them."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
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
    case,
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
from treadle.ids import id_text

LOCKING: Final = frozenset({"postgresql", "mysql", "mariadb"})
"""Databases in which a relay can lock rows so that another one takes those behind them (SKIP LOCKED)."""

BEFORE_ALL: Final = -(2**63)
"""A place before that of every row: a program that numbers its own rows may use 0."""

MOST_CHARACTERS: Final = 1_000_000
"""The most characters of bodies that are taken at once, unless a single one is longer.

They go in one request, which has a minute. Those with 8 MB were never done with where 100 KB/s go through, and were
sent again without an end.
"""

MOST_IDS: Final = 10_000
"""The most ids in one statement: SQLite and asyncpg allow 32,766 and 32,767 parameters."""

_TIMES = datetime(1, 1, 2, tzinfo=UTC).replace(tzinfo=None), datetime(9999, 12, 30, tzinfo=UTC).replace(tzinfo=None)
"""The first and the last of Python's times; not `datetime.min` and `max`, which asyncpg takes for infinity."""


@dataclass(frozen=True, slots=True)
class Row:
    """A submit in the outbox. On SQLite, text that is not UTF-8 is given as bytes."""

    seq: int
    """The row's place: rows are handed over in this order."""
    id: str
    """The task's id."""
    room: str
    """The room that it is submitted from."""
    job: str
    """`room:category:name`."""
    body: str
    """The payload and the options, as JSON."""
    registration: str | None
    """The registration of the job, as JSON, for when it is missing."""
    created_at: datetime | None
    """When it was written, by the writer's clock; aware, UTC. None if the column holds no time of the years 1 to 9999,
    which SQLite and PostgreSQL allow."""
    refused_at: datetime | None = None
    """When the server refused it for good; aware, UTC."""
    problem: dict[str, Any] | None = None
    """The problem with which it was refused (RFC 9457)."""


class _WhateverIsThere(sqlite.DATETIME):
    """A time in SQLite, whose columns also accept numbers and text: an invalid one is read as null.

    It may come as bytes, because the relay reads it as such. The table's own columns don't have this type, because a
    migration that Alembic generates names the columns' types and imports only SQLAlchemy's.
    """

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None]:
        """Return the function that reads a value."""
        reading = super().result_processor(dialect, coltype)

        def read(value: Any) -> datetime | None:
            try:
                return None if reading is None else reading(value.decode() if isinstance(value, bytes) else value)
            except (TypeError, ValueError):
                return None

        return read


def utc_now() -> datetime:
    """Return the present time as the table stores it: in UTC, without a zone, which not every database has."""
    return datetime.now(UTC).replace(tzinfo=None)


def check_table(connection: Connection, table: Table) -> None:
    """Raise `NoOutbox` when the table does not exist."""
    if not inspect(connection).has_table(table.name, schema=connection.schema_for_object(table)):
        raise NoOutbox(
            f"the database has no table {table.fullname}: create it with treadle.outbox.create_table, with your"
            " migrations, or by what `treadle outbox ddl` prints"
        )


def last_waiting(connection: Connection, table: Table) -> int:
    """Return the highest number of a waiting row, or the place before all if there is none."""
    last: int | None = connection.scalar(select(func.max(table.c.seq)).where(table.c.refused_at.is_(None)))
    return BEFORE_ALL if last is None else last


def take(connection: Connection, table: Table, after: int, last: int, most: int) -> list[Row]:
    """Return the next waiting rows after `after`, up to `last`, in order: at most `most`, fewer if bodies are long.

    If the database can, they are locked until the transaction ends, and rows locked by another relay are left out.
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


def waiting_elsewhere(connection: Connection, table: Table, rows: Sequence[Row], ids: Collection[str]) -> set[str]:
    """Return which of the ids, in lower case, are those of waiting rows before the last of these and none of these.

    They had to wait, or another relay hands them over at the moment.
    """
    c = table.c
    ours = {row.seq for row in rows}
    waiting = select(c.seq, *readable(connection, table, "id")).where(c.refused_at.is_(None), c.seq < rows[-1].seq)
    return {
        id_text(text_of(one.id))
        for is_one in among(c.id, ids)
        for one in connection.execute(waiting.where(is_one))
        if one.seq not in ours
    }


def among(column: ColumnElement[Any], ids: Collection[str]) -> Iterator[ColumnElement[bool]]:
    """Yield conditions, one for each statement, that the column is one of the ids, which are in lower case."""
    given = sorted(ids)
    for first in range(0, len(given), MOST_IDS):
        yield func.lower(column).in_(given[first : first + MOST_IDS])


def note_outcomes(
    connection: Connection, table: Table, handed: Sequence[Row], refused: Collection[tuple[Row, Any]]
) -> None:
    """Delete the rows that were handed over, and record the problems of those that were refused."""
    c = table.c
    # In SQLite, bytes in place of text never equal text, and a value that is not UTF-8 can only be passed as bytes.
    id_, written = (cast(c.id, LargeBinary), _bytes_of) if _keeps_whatever(connection) else (c.id, str)
    if handed:
        # By their ids too: where an emptied table numbers its rows from the start again, these may be other rows by
        # now.
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
    """Return these columns, or all of a row's, in the form in which they are to be read.

    SQLite's are read as bytes: drivers fail on text that is not UTF-8, and one such text would keep all rows that are
    read with it from being handed over. They also fail on PostgreSQL's times that Python does not have, such as
    infinity: these are read as null.
    """
    columns: list[ColumnElement[Any]] = [table.c[name] for name in names or (field.name for field in fields(Row))]
    if connection.dialect.name == "postgresql":
        return [_if_python_s(column) if isinstance(column.type, DateTime) else column for column in columns]
    if not _keeps_whatever(connection):
        return columns
    return [column if column.primary_key else _as_bytes(column).label(column.name) for column in columns]


def _as_bytes(column: ColumnElement[Any]) -> ColumnElement[Any]:
    kind = _WhateverIsThere() if isinstance(column.type, DateTime) else column.type  # type: ignore[no-untyped-call]
    return type_coerce(cast(column, LargeBinary), kind)


def _if_python_s(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((column.between(*_TIMES), column)).label(column.name)


def text_of(read: Any) -> Any:
    """Return the text of a column, which SQLite gives as bytes; bytes that are not UTF-8 are returned unchanged."""
    try:
        return read.decode() if isinstance(read, bytes) else read
    except UnicodeDecodeError:
        return read


def not_utf8(row: Row) -> str | None:
    """Return the name of a text of the row that is not UTF-8; None if there is none."""
    names = ("id", "room", "job", "body", "registration")
    return next((name for name in names if isinstance(getattr(row, name), bytes)), None)


def _bytes_of(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _keeps_whatever(connection: Connection) -> bool:
    """Return whether a text column may hold something other than text."""
    return connection.dialect.name == "sqlite"


def as_row(found: Any) -> Row:
    """Return a row from a query's result."""
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
    """Return the problem of a row; anything else that another program has written there becomes its detail."""
    try:
        problem = json.loads(written or "null")
    except (TypeError, ValueError, RecursionError):
        problem = written.decode(errors="replace") if isinstance(written, bytes) else written
    return problem if problem is None or isinstance(problem, dict) else {"detail": str(problem)}


def _aware(read: datetime | None) -> datetime | None:
    if read is None or read.tzinfo is not None:
        return read
    return read.replace(tzinfo=UTC)
