"""Whether the database's tables are those of this version: a migration that is missing, unknown, or half done."""

from sqlalchemy import Connection, PrimaryKeyConstraint, UniqueConstraint, inspect, text

from treadle.wire.findings import Finding
from treadle_server.store.migrations import HALF_DONE, HEAD, LOCK, REVISIONS, refusal, revisions
from treadle_server.store.tables import metadata

MOST = 4
"""The most missing objects that are listed by name."""


def look(connection: Connection) -> list[Finding]:
    """Compare the revision that alembic has noted, and the tables, with this version's."""
    found = revisions(connection)
    if _is_migrating(connection):
        return [Finding("migrations", "warn", "a server is migrating the database right now", "try again later")]
    there = set(inspect(connection).get_table_names())
    if (refused := refusal(connection, found)) is not None:
        return [Finding("migrations", "fail", refused.detail)]
    if not found:
        return [Finding("migrations", "ok", "the database is empty: the first server creates its tables")]
    [revision] = found
    if revision != HEAD:
        behind = len(REVISIONS) - 1 - REVISIONS.index(revision)
        return [Finding("migrations", "warn", f"the database is at {revision}, {behind} behind this version's {HEAD}",
                        "start a server of this version, or treadle migrate: docs/growing.md#upgrading")]  # fmt: skip
    if missing := _missing(connection, there):
        more = f" and {len(missing) - MOST} more" if len(missing) > MOST else ""
        lacking = f"it is marked as {HEAD}, but lacks {', '.join(missing[:MOST])}{more}"
        return [Finding("migrations", "fail", HALF_DONE.format(lacking))]
    if broken := _broken_indexes(connection):
        return [Finding("migrations", "fail", f"invalid indexes, never finished: {', '.join(broken)}",
                        "run REINDEX INDEX for each of them")]  # fmt: skip
    return [Finding("migrations", "ok", f"at {HEAD}, the newest revision of this version")]


def _is_migrating(connection: Connection) -> bool:
    if connection.dialect.name != "postgresql":
        return False  # SQLite's readers see the tables from before until it is done
    held = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = :key"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")  # fmt: skip
    return bool(connection.execute(held, {"key": LOCK}).scalar_one())


_BEYOND_TABLES = frozenset({"treadle_tasks", "treadle_runs", "ix_tasks_start_limit", "ix_tasks_run_limit"})
"""The views and indexes that migrations make and no table's description has."""


def _missing(connection: Connection, there: set[str]) -> list[str]:
    """Return the tables, columns, indexes, views and sequences that this version has and the database lacks."""
    lacking = sorted(set(metadata.tables) - there)
    columns = inspect(connection).get_multi_columns()
    known = {key[1]: {str(column["name"]) for column in of_one} for key, of_one in columns.items()}
    tables = [metadata.tables[name] for name in sorted(set(metadata.tables) & there)]
    for table in tables:
        lacking += [f"{table.name}.{one.name}" for one in table.columns if one.name not in known.get(table.name, set())]
    wanted = {str(index.name) for table in tables for index in table.indexes} | _BEYOND_TABLES
    if connection.dialect.name == "postgresql":
        # A restore that is interrupted leaves tables without keys: they come last. SQLite's are part of the table.
        keys = (
            one
            for table in tables
            for one in table.constraints
            if isinstance(one, PrimaryKeyConstraint | UniqueConstraint)
        )
        wanted |= {*(str(key.name) for key in keys), *metadata._sequences}  # noqa: SLF001 - nothing else lists them
        listed = text("SELECT relname FROM pg_class WHERE relnamespace = quote_ident(current_schema())::regnamespace")
    else:
        listed = text("SELECT name FROM sqlite_master")
    return lacking + sorted(wanted - set(connection.execute(listed).scalars()))


def _broken_indexes(connection: Connection) -> list[str]:
    if connection.dialect.name != "postgresql":
        return []
    broken = text("SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indrelid"
                  " WHERE NOT indisvalid AND relnamespace = quote_ident(current_schema())::regnamespace")  # fmt: skip
    return sorted(connection.execute(broken).scalars())
