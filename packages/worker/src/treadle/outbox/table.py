"""The table of the outbox, in the user's own database, whichever it is."""

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
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement, conv

NAME: Final = "treadle_outbox"

_SHORTEST_LIMIT = 63
"""Characters that an index's name may have in every database: in PostgreSQL."""

_RowKey = BigInteger().with_variant(Integer, "sqlite")

# MySQL's TEXT ends at 64 KB.
_Long = UnicodeText().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def table_in(metadata: MetaData, name: str = NAME, *, schema: str | None = None) -> Table:
    """Return the outbox as a table of this metadata, which then creates and migrates it with its others.

    `seq` is the order in which rows are handed over, `id` the task's id (a UUID), `job` its `room:category:name`,
    `room` where it is submitted from. `body` is an object with the payload and what options it has, `registration` what
    registers the job where it is missing, `problem` with which problem the server refused it for good: all three JSON.
    Instants are UTC.

    It is the same table at each call. A program that calls it anything but `treadle_outbox` gives it to `submit` and
    `Relay` as `table`.
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
        # A number that was given is never given again: a relay may still mean the row that had it.
        sqlite_autoincrement=True,
    )


def _index_name(name: str) -> str:
    """Return the index's name: of one that is too long for some database, that one's dialect makes a shorter one."""
    whole = f"ix_{name}_refused_at"
    return whole if len(whole) <= _SHORTEST_LIMIT else conv(whole)


TABLE: Final[Table] = table_in(MetaData())
"""The outbox as it is when a program says nothing of it."""


def create_table(connection: Connection, table: Table = TABLE) -> None:
    """Create the table unless it is there; in an async program `await connection.run_sync(create_table)`."""
    table.create(connection, checkfirst=True)


def ddl(dialect: Dialect, table: Table = TABLE) -> str:
    """Return the statements that create the table, in the words of this database: `ddl(engine.dialect)`.

    Raises SQLAlchemy's `IdentifierError` for a name that is too long there, as `create_table` does.
    """
    dialect.validate_identifier(table.name)
    statements: list[ExecutableDDLElement] = [CreateTable(table), *(CreateIndex(index) for index in table.indexes)]
    return "\n\n".join(f"{str(one.compile(dialect=dialect)).strip()};" for one in statements).replace("\t", "    ")
