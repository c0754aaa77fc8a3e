"""The table of the outbox, in the user's own database, of whichever kind."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Dialect,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Unicode,
    UnicodeText,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import IdentifierError
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement, conv

NAME: Final = "treadle_outbox"

_SHORTEST_LIMIT = 63
"""The most characters of an index's name that every database allows: PostgreSQL's limit."""

_RowKey = BigInteger().with_variant(Integer, "sqlite")

# MySQL's TEXT ends at 64 KB.
_Long = UnicodeText().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def table_in(metadata: MetaData, name: str = NAME, *, schema: str | None = None) -> Table:
    """Return the outbox as a table of this metadata, which then creates and migrates it along with its other tables.

    `seq` is the order in which rows are handed over, `id` the task's id (a UUID), `job` its `room:category:name`, and
    `room` where it is submitted from. `body` is an object with the payload and any options, `registration` registers
    the job if it is missing, and `problem` is the problem with which the server refused it for good: all three are
    JSON. Times are in UTC.

    Each call returns the same table. If you name it other than `treadle_outbox`, pass it to `submit` and `Relay` as
    `table`.
    """
    within = schema if schema is not None else metadata.schema
    if (known := metadata.tables.get(f"{within}.{name}" if within else name)) is not None:
        return known
    return Table(
        name,
        metadata,
        Column("seq", _RowKey, Identity(), primary_key=True),
        Column("id", Unicode(36), nullable=False),
        Column("room", Unicode(255), nullable=False),
        Column("job", Unicode(1024), nullable=False),
        Column("body", _Long, nullable=False),
        Column("registration", _Long),
        Column("created_at", DateTime, nullable=False),
        Column("refused_at", DateTime),
        Column("problem", _Long),
        Index(_index_name(name), "refused_at", "seq"),
        schema=schema,
        # Numbers are never reused: a relay may still refer to the row that had one.
        sqlite_autoincrement=True,
    )


def _index_name(name: str) -> str:
    """Return the index's name; if it is too long for some database, its dialect shortens it."""
    whole = f"ix_{name}_refused_at"
    return whole if len(whole) <= _SHORTEST_LIMIT else conv(whole)


TABLE: Final[Table] = table_in(MetaData())
"""The outbox table that is used by default."""


def create_table(connection: Connection, table: Table = TABLE) -> None:
    """Create the table if it does not exist; in async code `await connection.run_sync(create_table)`.

    Raises SQLAlchemy's `IdentifierError` if the table's name is too long for the database.
    """
    _check_length(connection.dialect, table.name)
    table.create(connection, checkfirst=True)


def ddl(dialect: Dialect, table: Table = TABLE) -> str:
    """Return the statements that create the table, in the SQL of this database: `ddl(engine.dialect)`.

    Raises SQLAlchemy's `IdentifierError` if the table's name is too long there, as `create_table` does.
    """
    _check_length(dialect, table.name)
    statements: list[ExecutableDDLElement] = [CreateTable(table), *(CreateIndex(index) for index in table.indexes)]
    return "\n\n".join(f"{str(one.compile(dialect=dialect)).strip()};" for one in statements).replace("\t", "    ")


def _check_length(dialect: Dialect, name: str) -> None:
    dialect.validate_identifier(name)
    # PostgreSQL counts bytes and cuts what is too long, SQLAlchemy counts characters.
    if dialect.name == "postgresql" and len(name.encode()) > dialect.max_identifier_length:
        raise IdentifierError(f"Identifier {name!r} exceeds maximum length of {dialect.max_identifier_length} bytes")
