"""What databases that earlier forms of 0001 made have otherwise than a fresh one.

0001 was changed twice after it had been used: its first form named the checks otherwise, the first two declared JSON on
SQLite (which has numeric affinity: `7` was kept as a number), and the first three spelt conditions with IN, so that the
deadline and unique keys were not found along their indexes; its first form also gave `count_deltas` no default on
PostgreSQL. What is as it should be is left as it is.
"""

import logging
import re

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

log = logging.getLogger(__name__)


def _either(column: str, *values: str) -> str:
    return "(" + " OR ".join(f"{column} = '{value}'" for value in values) + ")"


_HELD = _either("status", "failed", "paused", "cancelled", "scheduled")
_HOLDING = _either("status", "claimed", "running", "paused", "scheduled", "failed")

_INDEXES = {
    "ix_tasks_deadline": ("INDEX", "(deadline)", "deadline IS NOT NULL AND completed_at IS NULL"),
    "uq_tasks_unique_key": (
        "UNIQUE INDEX",
        "(job_num, unique_key)",
        "unique_key IS NOT NULL AND completed_at IS NULL",
    ),
    "ix_tasks_held": ("INDEX", "(job_num, status, seq)", _HELD),
    "ix_tasks_target_held": ("INDEX", "(target_num)", f"target_num IS NOT NULL AND NOT settled AND {_HOLDING}"),
}
"""Each index of tasks whose condition was spelt otherwise: its kind, columns and condition."""

_CHECKS = {
    ("workers", "state_known"): (
        "state IN ('draining', 'lost', 'online')",
        _either("state", "online", "draining", "lost"),
    ),
    ("tasks", "terminal_has_completed_at"): (
        "(status IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)",
        f"{_either('status', 'completed', 'failed', 'cancelled')} = (completed_at IS NOT NULL)",
    ),
    ("tasks", "status_known"): (
        "status IN ('cancelled', 'claimed', 'completed', 'failed', 'paused', 'pending', 'running', 'scheduled')",
        _either(
            "status",
            *("scheduled", "pending", "claimed", "running", "paused", "completed", "failed", "cancelled"),
        ),
    ),
    ("runs", "status_known"): (
        "status IN ('cancelled', 'completed', 'exception', 'failed', 'paused', 'returned')",
        _either("status", "completed", "failed", "exception", "paused", "cancelled", "returned"),
    ),
}
"""The checks that were spelt otherwise: as they were, and as they are."""

_JSON = re.compile(r'([(,]\s*"?(\w+)"?) JSON\b')


def upgrade() -> None:
    bind = op.get_bind()
    is_sqlite = bind.dialect.name == "sqlite"
    definitions = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'tasks'"
    if not is_sqlite:
        definitions = (
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'tasks'"
        )
    found: dict[str, str] = {name: sql or "" for name, sql in bind.exec_driver_sql(definitions)}
    for name, (kind, columns, condition) in _INDEXES.items():
        # PostgreSQL shows conditions in its own spelling, but never an IN as ORs, or the other way round.
        if (" OR " if " OR " in condition else "completed_at IS NULL") not in found.get(name, ""):
            op.execute(f"DROP INDEX IF EXISTS {name}")
            op.execute(f"CREATE {kind} {name} ON tasks {columns} WHERE {condition}")
    if is_sqlite:
        _mend_sqlite(bind)
    else:
        _mend_postgresql(bind)


def downgrade() -> None:
    """Leave all as it is: it is what 0001 makes now."""


def _mend_postgresql(bind: sa.Connection) -> None:
    found = bind.exec_driver_sql(
        "SELECT relname, conname, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid"
        " WHERE contype = 'c' AND connamespace = quote_ident(current_schema())::regnamespace"
    )
    for table, name, definition in found.all():
        short = name.removeprefix(f"ck_{table}_").removeprefix(f"ck_{table}_")
        full = _full(table, short)
        if (table, short) in _CHECKS and " OR " not in definition:
            _, condition = _CHECKS[table, short]
            op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {full} CHECK ({condition})")
        elif name == f"ck_{table}_{short}":
            op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {name} TO {full}")
    # As BIGSERIAL makes it, though rows take their ids from `count_deltas_id`.
    op.execute("CREATE SEQUENCE IF NOT EXISTS count_deltas_id_seq OWNED BY count_deltas.id")
    op.execute("ALTER TABLE count_deltas ALTER COLUMN id SET DEFAULT nextval('count_deltas_id_seq')")


def _full(table: str, short: str) -> str:
    """Return the name that a check has: alembic puts the convention's prefix before a name that bears it already."""
    return f"ck_{table}_ck_{table}_{short}"


def _mend_sqlite(bind: sa.Connection) -> None:
    """Put what tables are declared as in order, as https://www.sqlite.org/lang_altertable.html#otheralter has it.

    No row is rewritten for it. Another way would be to copy `tasks` and all that refers to it, without foreign keys.
    """
    tables = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
    found: dict[str, str] = {name: str(sql) for name, sql in bind.exec_driver_sql(tables)}
    changed = {name: new for name, sql in found.items() if (new := _declared(name, sql)) != sql}
    if not changed:
        return
    version = bind.exec_driver_sql("PRAGMA schema_version").scalar_one()
    bind.exec_driver_sql("PRAGMA writable_schema = ON")
    try:
        for name, sql in changed.items():
            bind.exec_driver_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (sql, name))
        bind.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    except sa.exc.DatabaseError as error:
        # An operating system's own SQLite may forbid it. What is declared there means the same, and only takes longer.
        log.warning("the database's tables keep what an earlier version declared (%s); that is slower, no more", error)
        return
    finally:
        bind.exec_driver_sql("PRAGMA writable_schema = RESET")
    for name in changed:
        for _, column in _JSON.findall(found[name]):
            value: sa.ColumnClause[str] = sa.column(column, sa.Text)
            op.execute(
                sa.update(sa.table(name, value))
                .values({column: sa.cast(value, sa.Text)})
                .where(sa.func.typeof(value).in_(["integer", "real"]))
            )


def _declared(table: str, sql: str) -> str:
    """Return how a table is to be declared that is declared so."""
    for (of, _), (was, condition) in _CHECKS.items():
        if of == table:
            sql = sql.replace(f"CHECK ({was})", f"CHECK ({condition})")
    sql = re.sub(rf"CONSTRAINT ck_{table}_(?!ck_{table}_)", f"CONSTRAINT {_full(table, '')}", sql)
    return _JSON.sub(r"\1 TEXT", sql)
