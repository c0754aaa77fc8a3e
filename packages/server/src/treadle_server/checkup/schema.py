"""Whether the database's tables are those of this version: a migration that is missing, unknown, or half done."""

from sqlalchemy import Connection, TextClause, text

from treadle.wire.amounts import first_of
from treadle.wire.findings import Finding
from treadle_server.checkup import sequences
from treadle_server.store.migrations import HEAD, LOCK, REVISIONS, explain_lacking, refusal, revisions
from treadle_server.store.postgres.additions import additions
from treadle_server.store.tables import metadata


def look(connection: Connection) -> list[Finding]:
    """Compare the revision that alembic has noted, and the tables, with this version's."""
    found = revisions(connection)
    if _is_migrating(connection):
        return [Finding("migrations", "warn", "a server is migrating the database right now", "try again later")]
    if (refused := refusal(connection, found)) is not None:
        return [Finding("migrations", "fail", refused.detail)]
    if not found:
        return [Finding("migrations", "ok", "the database is empty: the first server creates its tables")]
    [revision] = found
    if revision != HEAD:
        behind = len(REVISIONS) - 1 - REVISIONS.index(revision)
        return [Finding("migrations", "warn", f"the database is at {revision}, {behind} behind this version's {HEAD}",
                        "start a server of this version, or treadle migrate: docs/growing.md#upgrading")]  # fmt: skip
    if (said := explain_lacking(connection, HEAD)) is not None:
        return [Finding("migrations", "fail", said)]
    if broken := _on_postgresql(connection, _BROKEN_INDEXES):
        return [Finding("migrations", "fail", f"invalid indexes, never finished: {', '.join(broken)}",
                        "run REINDEX INDEX for each of them")]  # fmt: skip
    if unchecked := _on_postgresql(connection, _UNCHECKED_CONSTRAINTS):
        return [Finding("migrations", "fail", f"constraints that were never checked: {', '.join(unchecked)}",
                        "run ALTER TABLE … VALIDATE CONSTRAINT for each of them")]  # fmt: skip
    if disabled := _on_postgresql(connection, _DISABLED_TRIGGERS):
        return [Finding("migrations", "fail", f"foreign keys are not kept: triggers of {', '.join(disabled)} are"
                        " disabled, as an interrupted restore of data leaves them",
                        "restore again, or run ALTER TABLE … ENABLE TRIGGER ALL for each of them")]  # fmt: skip
    if unlogged := _on_postgresql(connection, _UNLOGGED_TABLES):
        return [Finding("migrations", "fail", f"a crash empties unlogged tables: {', '.join(unlogged)}",
                        "run ALTER TABLE … SET LOGGED for each of them")]  # fmt: skip
    if found_behind := sequences.behind(connection):
        told = ", ".join(f"{name}, whose table has {greatest}" for name, greatest in found_behind.items())
        ways = "; ".join(f"SELECT setval('{name}', {greatest})" for name, greatest in found_behind.items())
        means = f"sequences are behind their tables: {told}: what is submitted fails"
        return [Finding("migrations", "fail", means, f"stop the servers, and run {ways}")]
    if connection.dialect.name == "postgresql" and (added := additions(connection)):
        means = f"somebody has added to Treadle's tables: {first_of(added, 10)}"
        return [Finding("migrations", "warn", means, "drop it, unless you know that it lets all rows of Treadle in")]
    return [Finding("migrations", "ok", f"at {HEAD}, the newest revision of this version")]


def _is_migrating(connection: Connection) -> bool:
    if connection.dialect.name != "postgresql":
        return False  # SQLite's readers see the tables from before until it is done
    held = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = :key"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")  # fmt: skip
    return bool(connection.execute(held, {"key": LOCK}).scalar_one())


_BROKEN_INDEXES = text("""
SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid AND pg_table_is_visible(indrelid) ORDER BY 1
""")

_UNCHECKED_CONSTRAINTS = text("""
SELECT conname || ' of ' || conrelid::regclass FROM pg_constraint
 WHERE NOT convalidated AND pg_table_is_visible(conrelid) ORDER BY 1
""")

_DISABLED_TRIGGERS = text("""
SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger
 WHERE tgconstraint <> 0 AND tgenabled = 'D' AND pg_table_is_visible(tgrelid) ORDER BY 1
""")

_UNLOGGED_TABLES = text("""
SELECT relname FROM pg_class
 WHERE relpersistence = 'u' AND relname = ANY (:tables) AND pg_table_is_visible(oid) ORDER BY 1
""").bindparams(tables=sorted(metadata.tables))


def _on_postgresql(connection: Connection, names: TextClause) -> list[str]:
    return list(connection.execute(names).scalars()) if connection.dialect.name == "postgresql" else []
