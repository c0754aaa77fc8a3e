"""Find the parts of this version's schema that a database lacks, as after an interrupted restore."""

import re

from sqlalchemy import Connection, text

from treadle.wire.amounts import first_of
from treadle_server.store.tables import metadata

MOST = 4
"""The most missing objects that are listed by name."""

_OF_MIGRATIONS = frozenset({"treadle_tasks", "treadle_runs", "ix_tasks_start_limit", "ix_tasks_run_limit"})
"""The views and indexes that only migrations define."""

_ON_POSTGRESQL = text("""
SELECT relname FROM pg_class WHERE pg_table_is_visible(oid)
UNION ALL
SELECT relname || '.' || attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
 WHERE pg_table_is_visible(attrelid) AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT conname FROM pg_constraint WHERE pg_table_is_visible(conrelid)
""")

_ON_SQLITE = text("""
SELECT name FROM sqlite_master
UNION ALL
SELECT tables.name || '.' || columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
 WHERE tables.type = 'table'
""")


def lacking(connection: Connection) -> str | None:
    """Return the names of the objects that the database lacks; None if it is complete.

    These are tables, columns, indexes and views, and on PostgreSQL, which dumps them separately from their tables,
    sequences, keys and checks too. A missing table's other objects are not named.
    """
    is_postgresql = connection.dialect.name == "postgresql"
    listed = connection.execute(_ON_POSTGRESQL if is_postgresql else _ON_SQLITE).scalars()
    # The names of the first migrations' checks have their prefix twice.
    there = {re.sub(r"^(ck_\w+_)(?=\1)", "", str(name)) for name in listed}
    wanted = _parts(there) | (_parts_on_postgresql(there) if is_postgresql else set())
    missing = sorted(metadata.tables.keys() - there) + sorted(wanted - there)
    return first_of(missing, MOST) if missing else None


def _parts(there: set[str]) -> set[str]:
    tables = [metadata.tables[name] for name in metadata.tables.keys() & there]
    return {
        *_OF_MIGRATIONS,
        *(f"{table.name}.{column.name}" for table in tables for column in table.columns),
        *(str(index.name) for table in tables for index in table.indexes),
    }


def _parts_on_postgresql(there: set[str]) -> set[str]:
    tables = [metadata.tables[name] for name in metadata.tables.keys() & there]
    # SQLAlchemy has no public way to list sequences, or the constraints that only SQLite has.
    return {
        "a_newer_treadle_server_has_migrated_this_database",  # of migration 0019
        *metadata._sequences,  # noqa: SLF001
        *(str(one.name) for table in tables for one in table.constraints if one._ddl_if is None),  # noqa: SLF001
    }
