"""Tasks that wait for tasks: the status `blocked`, flows, and which task waits for which.

On SQLite the checks of a table are part of how it is declared, and are changed there as in 0013: no row is rewritten.
"""

import re

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Id, Instant, Json

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_STATUS = "status = 'scheduled' OR status = "
_REASON = "dependency-failed"
_REASONS = re.compile(r"reason IN \(([^)]*)\)")
_HELD = "status = 'failed' OR status = 'paused' OR status = 'cancelled' OR status = 'scheduled'"
_TO_TELL = "(telling < 0 OR (telling < 4611686018427387904 AND completed_at IS NOT NULL))"


def upgrade() -> None:
    op.create_table(
        "flows",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("submitter", sa.String(length=255), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flows")),
    )
    op.create_index(op.f("ix_flows_created_at_id"), "flows", ["created_at", "id"], unique=False)
    _add_columns()
    # The table was there, and nothing was ever written to it.
    op.add_column("task_dependencies", sa.Column("met", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("task_dependencies", sa.Column("places", Json, nullable=False, server_default=sa.text("'[]'")))
    op.drop_index("ix_task_dependencies_needs_seq", table_name="task_dependencies")
    op.create_index(
        op.f("ix_task_dependencies_needs_seq_task_seq"), "task_dependencies", ["needs_seq", "task_seq"], unique=False
    )
    if op.get_bind().dialect.name == "sqlite":
        _admit_on_sqlite(op.get_bind())
    else:
        _admit_on_postgresql(op.get_bind())
    op.drop_index("ix_tasks_held", table_name="tasks")
    _partial_index("ix_tasks_held", ["job_num", "status", "seq"], f"({_HELD} OR status = 'blocked')")
    _partial_index("ix_tasks_blocked", ["seq"], "status = 'blocked'")
    _partial_index("ix_tasks_flow", ["flow_id", "status", "seq"], "flow_id IS NOT NULL")
    _partial_index("ix_tasks_to_tell", ["seq"], _TO_TELL)


def _add_columns() -> None:
    op.add_column("tasks", sa.Column("flow_id", Id, nullable=True))
    op.add_column("tasks", sa.Column("on_dependency_failure", sa.String(length=8), nullable=True))
    op.add_column("tasks", sa.Column("arguments_from", Json, nullable=True))
    op.add_column("tasks", sa.Column("unmet", sa.Integer(), nullable=True))
    op.add_column("tasks", sa.Column("telling", BigKey, nullable=True))


def _partial_index(name: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, "tasks", columns, unique=False, sqlite_where=condition, postgresql_where=condition)


def _with_reason(found: re.Match[str]) -> str:
    words = sorted({*re.findall(r"'([^']+)'", found[1]), _REASON})
    return "reason IN (" + ", ".join(f"'{word}'" for word in words) + ")"


def _admit_on_sqlite(bind: sa.Connection) -> None:
    """Let tasks have the new status and reason, as https://www.sqlite.org/lang_altertable.html#otheralter has it."""
    was = str(
        bind.exec_driver_sql("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'tasks'").scalar_one()
    )
    sql = _REASONS.sub(_with_reason, was).replace(f"{_STATUS}'pending'", f"{_STATUS}'blocked' OR status = 'pending'")
    version = bind.exec_driver_sql("PRAGMA schema_version").scalar_one()
    bind.exec_driver_sql("PRAGMA writable_schema = ON")
    try:
        bind.exec_driver_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = 'tasks'", (sql,))
        bind.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    finally:
        bind.exec_driver_sql("PRAGMA writable_schema = RESET")


def _admit_on_postgresql(bind: sa.Connection) -> None:
    found = bind.exec_driver_sql(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid = 'tasks'::regclass"
        " AND (conname LIKE '%status_known' OR conname LIKE '%reason_known')"
    )
    for name, definition in found.all():
        words = re.findall(r"'([a-z-]+)'::", definition)
        if name.endswith("reason_known"):
            listed = ", ".join(f"'{word}'" for word in sorted({*words, _REASON}))
            condition = f"reason IS NULL OR reason IN ({listed})"
        else:
            ordered = dict.fromkeys(
                word for one in words for word in ([one, "blocked"] if one == "scheduled" else [one])
            )
            condition = " OR ".join(f"status = '{word}'" for word in ordered)
        op.execute(f"ALTER TABLE tasks DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({condition})")


def downgrade() -> None:
    for name in ("ix_tasks_to_tell", "ix_tasks_flow", "ix_tasks_blocked", "ix_tasks_held"):
        op.drop_index(name, table_name="tasks")
    _partial_index("ix_tasks_held", ["job_num", "status", "seq"], f"({_HELD})")
    for name in ("telling", "unmet", "arguments_from", "on_dependency_failure", "flow_id"):
        op.drop_column("tasks", name)
    op.drop_table("flows")
    op.drop_index("ix_task_dependencies_needs_seq_task_seq", table_name="task_dependencies")
    op.create_index("ix_task_dependencies_needs_seq", "task_dependencies", ["needs_seq"], unique=False)
    for name in ("met", "places"):
        op.drop_column("task_dependencies", name)
