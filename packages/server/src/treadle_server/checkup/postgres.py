"""Whether PostgreSQL keeps what it has acknowledged, takes writes, and has room for connections; its disk and clock."""

from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, text

from treadle.wire.findings import Finding
from treadle_server.checkup import disk
from treadle_server.store.migrations import ENCODING, OWN_DATABASE, warning_on_schemas
from treadle_server.store.tables import metadata

OLDEST = 150_000
"""The oldest version that is still maintained, as PostgreSQL writes it."""

NEARLY_ALL = 0.9
"""The share of the connections from which on there are too few."""

SKEW = 5.0
"""Seconds by which its clock may differ from this machine's: leases go by its own."""


def look(connection: Connection) -> list[Finding]:
    """Look at its version and its settings; nothing is returned where all are well."""
    version = int(_show(connection, "server_version_num"))
    found: list[Finding] = []
    if version < OLDEST:
        found.append(Finding("database", "warn", f"PostgreSQL {version // 10_000} is no longer maintained",
                             f"upgrade it to {OLDEST // 10_000} or later"))  # fmt: skip
    for setting, bad, good, means in (
        ("fsync", "off", "on", "a power cut can destroy the database"),
        ("synchronous_commit", "off", "on", "a crash loses what was acknowledged in the last moment before it (G1)"),
        ("full_page_writes", "off", "on", "a power cut can leave half-written pages"),
        ("session_replication_role", "replica", "origin", "foreign keys are not kept"),
    ):
        if _show(connection, setting) == bad:
            found.append(Finding("database", "fail", f"{setting} is {bad}: {means}",
                                 f"set {setting} = {good}, for the server, the database and the role"))  # fmt: skip
    if (encoding := _show(connection, "server_encoding")) != ENCODING:
        found.append(Finding("database", "fail", f"its encoding is {encoding}: tasks with text beyond it fail",
                             f"`treadle copy` it to one with ENCODING '{ENCODING}'"))  # fmt: skip
    if connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one():
        found.append(Finding("database", "fail", "it is a standby, which accepts no writes",
                             "name the primary, or all hosts with target_session_attrs=read-write"))  # fmt: skip
    if _show(connection, "default_transaction_read_only") == "on":
        found.append(Finding("database", "fail", "default_transaction_read_only is on: it accepts no writes",
                             "set it to off for the server, the database, the role and in the URL"))  # fmt: skip
    role, closed = connection.execute(_RIGHTS).one()
    if closed is not None:
        found.append(Finding("database", "fail", f"the role {role} {closed}: no server can work",
                             "make it the owner of the database or its schema, and of Treadle's tables, and"
                             " disable their row security"))  # fmt: skip
    if (said := warning_on_schemas(connection)) is not None:
        found.append(Finding("database", "fail", said, OWN_DATABASE))
    for whose, used, most, limit in connection.execute(_CONNECTIONS):
        if used >= NEARLY_ALL * most:
            told = f"{used} of {most} connections{whose} are in use: further servers get none"
            found.append(Finding("database", "warn", told, f"raise {limit}, or put pgbouncer in front of it"))
    return found


_CONNECTIONS = text("""
WITH sessions AS (SELECT usename, datname FROM pg_stat_activity WHERE backend_type = 'client backend')
SELECT '', (SELECT count(*) FROM sessions), current_setting('max_connections')::int, 'max_connections'
UNION ALL
SELECT ' of the role ' || rolname, (SELECT count(*) FROM sessions WHERE usename = rolname), rolconnlimit,
       'its CONNECTION LIMIT'
  FROM pg_roles WHERE rolname = session_user AND rolconnlimit >= 0
UNION ALL
SELECT ' to the database', (SELECT count(*) FROM sessions WHERE sessions.datname = pg_database.datname), datconnlimit,
       'its CONNECTION LIMIT'
  FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0
""")


_RIGHTS = text("""
SELECT current_user, CASE
       WHEN to_regclass('alembic_version') IS NOT NULL
       THEN (SELECT lacks || relname
               FROM pg_class, LATERAL (SELECT CASE
                    WHEN relkind = 'S'
                    THEN CASE WHEN relname = ANY (:sequences) AND NOT has_sequence_privilege(oid, 'USAGE')
                              THEN 'may not count by the sequence ' END
                    WHEN relname <> ALL (:tables) THEN NULL
                    WHEN NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
                              AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
                    THEN 'may not change the table '
                    WHEN row_security_active(oid) THEN 'does not see all rows of the table '
                    END) AS of (lacks)
              WHERE pg_table_is_visible(oid) AND lacks IS NOT NULL ORDER BY lacks, relname LIMIT 1)
       WHEN NOT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
       THEN 'may make no tables in ' || coalesce('the schema ' || current_schema(), 'any schema of its search_path')
       END
""").bindparams(tables=sorted(metadata.tables), sequences=sorted(metadata._sequences))  # noqa: SLF001 - as in `schema.py`
"""The role, and what it may not do that every server does; NULL: it may."""


def _show(connection: Connection, setting: str) -> str:
    return str(connection.execute(text("SELECT current_setting(:name)"), {"name": setting}).scalar_one())


def look_at_disk(connection: Connection) -> list[Finding]:
    """Look at the disk of its directory, where that is on this machine and it says which."""
    is_here = connection.execute(text("SELECT inet_server_addr() IS NULL OR inet_server_addr() << '127.0.0.0/8'"
                                      " OR inet_server_addr() = '::1'")).scalar_one()  # fmt: skip
    may_know = connection.execute(
        text("SELECT pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')")
    ).scalar_one()
    if is_here and may_know:
        place = Path(_show(connection, "data_directory"))
        try:
            return [one for one in disk.look("PostgreSQL", place) if isinstance(one, Finding)]
        except PermissionError:
            pass
    return [Finding("disk", "ok", "PostgreSQL's disk can't be seen from here: monitor it on its own machine")]


def look_at_clock(connection: Connection) -> list[Finding]:
    """Hold its clock, which is that of all its servers, against this machine's."""
    sent = datetime.now(UTC)
    shown: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    skew = (shown - (sent + (datetime.now(UTC) - sent) / 2)).total_seconds()
    told = f"PostgreSQL's clock is {skew:+.2f} s from this machine's"
    if abs(skew) > SKEW:
        return [
            Finding("clocks", "warn", f"{told}: leases use it, logs use each machine's own", "synchronise both by NTP")
        ]
    return [Finding("clocks", "ok", told)]
