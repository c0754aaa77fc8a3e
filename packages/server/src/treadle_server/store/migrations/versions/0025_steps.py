"""Steps that tasks keep, and messages for them; runs end `suspended`, and their tasks sleep or wait for that reason.

On SQLite the two checks are rewritten where they are declared, as in 0013: no row is copied for it.
"""

import re

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Instant, Json

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_LAST_OUTCOME = "status = 'returned'"
_REASONS = re.compile(r"reason IS NULL OR reason IN \(([^)]*)\)")


def upgrade() -> None:
    op.create_table(
        "task_steps",
        sa.Column("task_seq", BigKey, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("occurrence", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("function", sa.String(255), nullable=True),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("result", Json, nullable=True),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("until", Instant(), nullable=True),
        sa.Column("received_at", Instant(), nullable=True),
        sa.CheckConstraint(
            "(kind = 'call' OR kind = 'sleep' OR kind = 'receive')", name=op.f("ck_task_steps_kind_known")
        ),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name=op.f("fk_task_steps_task_seq"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_seq", "number", name=op.f("pk_task_steps")),
        sa.UniqueConstraint("task_seq", "name", "occurrence", name=op.f("uq_task_steps_task_seq_name_occurrence")),
    )
    op.create_table(
        "task_messages",
        sa.Column("task_seq", BigKey, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("data", Json, nullable=True),
        sa.Column("sender", sa.String(255), nullable=False),
        sa.Column("sent_at", Instant(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["task_seq"], ["tasks.seq"], name=op.f("fk_task_messages_task_seq"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("task_seq", "number", name=op.f("pk_task_messages")),
        sa.UniqueConstraint("task_seq", "name", "id", name=op.f("uq_task_messages_task_seq_name_id")),
    )
    waiting = sa.text("step IS NULL")
    op.create_index(
        "ix_task_messages_waiting",
        "task_messages",
        ["task_seq", "name", "number"],
        unique=False,
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    op.add_column("tasks", sa.Column("steps", sa.Integer(), nullable=False, server_default="0"))
    if op.get_bind().dialect.name == "sqlite":
        _widen_sqlite(op.get_bind())
    else:
        _widen_postgresql(op.get_bind())


def _with_suspended(reasons: str) -> str:
    """Return a list of quoted reasons with the new one among them, whichever there are."""
    found = {*re.findall(r"'([^']+)'", reasons), "suspended"}
    return ", ".join(f"'{reason}'" for reason in sorted(found))


def _widen_sqlite(bind: sa.Connection) -> None:
    tables = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name IN ('tasks', 'runs')"
    found: dict[str, str] = {name: str(sql) for name, sql in bind.exec_driver_sql(tables)}
    changed = {
        "runs": found["runs"].replace(_LAST_OUTCOME, f"{_LAST_OUTCOME} OR status = 'suspended'"),
        "tasks": _REASONS.sub(
            lambda check: f"reason IS NULL OR reason IN ({_with_suspended(check[1])})", found["tasks"]
        ),
    }
    version = bind.exec_driver_sql("PRAGMA schema_version").scalar_one()
    bind.exec_driver_sql("PRAGMA writable_schema = ON")
    try:
        for name, sql in changed.items():
            bind.exec_driver_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (sql, name))
        bind.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    finally:
        bind.exec_driver_sql("PRAGMA writable_schema = RESET")


def _widen_postgresql(bind: sa.Connection) -> None:
    definition = bind.exec_driver_sql(
        "SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c WHERE conname = 'ck_tasks_ck_tasks_reason_known'"
        " AND connamespace = quote_ident(current_schema())::regnamespace"
    ).scalar_one()
    _replace("tasks", "ck_tasks_ck_tasks_reason_known", f"reason IS NULL OR reason IN ({_with_suspended(definition)})")
    outcomes = ("completed", "failed", "exception", "paused", "cancelled", "returned", "suspended")
    condition = " OR ".join(f"status = '{outcome}'" for outcome in outcomes)
    _replace("runs", "ck_runs_ck_runs_status_known", f"({condition})")


def _replace(table: str, name: str, condition: str) -> None:
    op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({condition})")


def downgrade() -> None:
    op.drop_column("tasks", "steps")
    op.drop_table("task_messages")
    op.drop_table("task_steps")
