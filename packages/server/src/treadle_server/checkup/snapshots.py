"""Whether somebody has kept a snapshot open for so long that nothing old can be cleared away."""

from pathlib import Path

from sqlalchemy import Connection, text

from treadle.wire.amounts import in_bytes
from treadle.wire.findings import Finding, Seen
from treadle_server.checkup.disk import MB

LONG = 600
"""Seconds of a transaction after which it holds up what vacuum would clear away: queues grow by dead rows."""

LARGE_LOG = 256 * MB
"""Bytes of SQLite's log: it is written back every 16 MiB, unless a reader still needs what it had before."""


def look_at_log(path: Path) -> Seen:
    """Look at SQLite's log, which grows while a reader keeps its snapshot."""
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size >= LARGE_LOG:
        return [Finding("snapshots", "warn", f"{log} has {in_bytes(size)}: a long read transaction keeps it from"
                        " being written back to the database",
                        "end it (fuser shows who has the file open): the next commit truncates the log")]  # fmt: skip
    return [Finding("snapshots", "ok", f"the log has {in_bytes(size)}")]


_OPEN = text("""
SELECT 'session ' || pid || ' (' || coalesce(usename, '?') || ', ' || coalesce(nullif(application_name, ''), '?')
       || ', ' || coalesce(state, '?') || ')', extract(epoch FROM clock_timestamp() - xact_start),
       'SELECT pg_terminate_backend(' || pid || ')'
  FROM pg_stat_activity
 WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
   AND datname = current_database()
UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared),
       'ROLLBACK PREPARED ' || quote_literal(gid)
  FROM pg_prepared_xacts WHERE database = current_database()
""")

_SLOTS = text(
    "SELECT slot_name FROM pg_replication_slots WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL"
    " OR restart_lsn IS NOT NULL) ORDER BY 1"
)


def look_at_sessions(connection: Connection) -> list[Finding]:
    """Look at PostgreSQL's open transactions, prepared ones, and slots that nobody reads."""
    long = [row for row in connection.execute(_OPEN) if row[1] is not None and row[1] > LONG]
    found = [
        Finding("snapshots", "warn", f"{who} has had a transaction open for {seconds / 60:.0f} minutes: vacuum can't"
                " remove newer dead rows, and queues become slow", f"end it: {end}")
        for who, seconds, end in sorted(long, key=lambda row: -row[1])
    ]  # fmt: skip
    if slots := list(connection.execute(_SLOTS).scalars()):
        found.append(Finding("snapshots", "warn", f"nobody reads the replication slot {', '.join(slots)}: PostgreSQL"
                             " keeps everything that it has not read, which fills the disk",
                             "restart its reader, or SELECT pg_drop_replication_slot(…)"))  # fmt: skip
    return found or [Finding("snapshots", "ok", f"no transaction has been open for more than {LONG // 60} minutes")]
