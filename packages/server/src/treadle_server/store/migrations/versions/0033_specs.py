"""What a task is to do in a table of its own, `task_specs`: claims and completions no longer write it anew.

On SQLite each column that goes has every row written once; 1,000,000 tasks take less than a minute. It is one
transaction on both databases: whoever stops it finds everything as it was, and begins again.
"""

import logging
from typing import Any

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Json

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

log = logging.getLogger("treadle_server.store.migrations")

MANY = 10_000
"""Of so many tasks it is said how far their move is."""


def _moved() -> list[sa.Column[Any]]:
    return [
        sa.Column("payload", Json, nullable=False),
        sa.Column("content_hash", sa.LargeBinary(), nullable=False),
        sa.Column("submitter", sa.String(255), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("max_requeues", sa.Integer(), nullable=False),
        sa.Column("retry_base", sa.Double(), nullable=False),
        sa.Column("retry_multiplier", sa.Double(), nullable=False),
        sa.Column("retry_randomization", sa.Double(), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("tags", Json),
        sa.Column("scopes", Json),
        sa.Column("budget", sa.Double()),
        sa.Column("trace", sa.Text()),
        sa.Column("arguments_from", Json),
    ]


_VIEW = """
CREATE VIEW treadle_tasks AS
SELECT tasks.id, job_name AS job, tasks.room, status, priority, run_id + 1 AS attempts, retry_count AS retries,
       requeue_count AS requeues, payload, result, error, reason, checkpoint, progress, coalesce(workers.name, {worker})
       AS worker, worker_id, target, blocked, weight, tasks.pool, tags, submitter,
       {times}
FROM tasks {specs} LEFT JOIN workers ON workers.id = tasks.worker_id
"""
_TIMES = (
    *("due_at", "created_at", "claimed_at", "started_at", "completed_at", "taken_until", "next_retry_at", "deadline"),
)


def _show(specs: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        # Microseconds since 1970 there, which nobody reads.
        shown = [f"strftime('%Y-%m-%dT%H:%M:%fZ', tasks.{at} / 1e6, 'unixepoch') AS {at}" for at in _TIMES]
        worker = "tasks.worker_id"
    else:
        shown = [f"tasks.{at} AS {at}" for at in _TIMES]
        worker = "CAST(tasks.worker_id AS text)"
    view = _VIEW.format(times=", ".join(shown), worker=worker, specs=specs)
    op.execute(sa.text(view.replace(":", r"\:")))


def upgrade() -> None:
    bind = op.get_bind()
    is_sqlite = bind.dialect.name == "sqlite"
    owner = sa.ForeignKeyConstraint(["seq"], ["tasks.seq"], name="fk_task_specs_seq", ondelete="CASCADE")
    moved = [column.name for column in _moved()]
    is_long = bind.exec_driver_sql(f"SELECT 1 FROM tasks LIMIT 1 OFFSET {MANY}").first() is not None  # noqa: S608
    level = logging.INFO if is_long else logging.DEBUG
    op.execute("DROP VIEW treadle_tasks")
    op.create_table(
        "task_specs",
        sa.Column("seq", BigKey, autoincrement=False, nullable=False),
        sa.Column("job_num", BigKey, nullable=False),
        sa.Column("room", sa.String(255), nullable=False),
        *_moved(),
        *([owner] if is_sqlite else []),
        sa.PrimaryKeyConstraint("seq", name="pk_task_specs"),
    )
    log.log(level, "what each task is to do is copied to a table of its own")
    names = ", ".join(("seq", "job_num", "room", *moved))
    op.execute(f"INSERT INTO task_specs ({names}) SELECT {names} FROM tasks ORDER BY seq")  # noqa: S608
    op.create_index("ix_task_specs_job", "task_specs", ["job_num", "seq"])
    op.create_index("ix_task_specs_room", "task_specs", ["room", "seq"])
    op.drop_index("ix_tasks_job", "tasks")
    op.drop_index("ix_tasks_room", "tasks")
    for i, name in enumerate(moved, 1):
        log.log(level, "column %d of %d leaves the table of tasks", i, len(moved))
        op.drop_column("tasks", name)
    _show("JOIN task_specs ON task_specs.seq = tasks.seq")


def downgrade() -> None:
    op.execute("DROP VIEW treadle_tasks")
    for column in _moved():
        if not column.nullable:
            column.server_default = sa.DefaultClause(_unset(column))
        op.add_column("tasks", column)
    names = [column.name for column in _moved()]
    sets = ", ".join(f"{name} = task_specs.{name}" for name in names)
    op.execute(f"UPDATE tasks SET {sets} FROM task_specs WHERE task_specs.seq = tasks.seq")  # noqa: S608
    op.create_index("ix_tasks_job", "tasks", ["job_num", "seq"])
    op.create_index("ix_tasks_room", "tasks", ["room", "seq"])
    op.drop_table("task_specs")
    _show("")


def _unset(column: sa.Column[Any]) -> str:
    """Return what stands in a column that may not be null until its values are moved back."""
    if isinstance(column.type, sa.Integer | sa.Double):
        return "0"
    return "{}" if column.name == "payload" else ""
