"""Limits over all workers: what they allow, what runs count for, tokens, and the lines of tasks that wait for them.

The table `limits` of 0001 was never used.
"""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Instant, Json

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_TARGETED = "target_num IS NOT NULL AND status = 'pending' AND "
_LIMITED = "limit_key IS NOT NULL AND "


def _index(name: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    terms = [sa.text(column) if " " in column else column for column in columns]
    op.create_index(name, "tasks", terms, unique=False, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    op.drop_table("limits")
    op.create_table(
        "limits",
        sa.Column("num", BigKey, autoincrement=False, nullable=False),
        sa.Column("room", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=True),
        sa.Column("rate_count", sa.Integer(), nullable=True),
        sa.Column("rate_seconds", sa.Double(), nullable=True),
        sa.Column("rate_burst", sa.Integer(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("concurrency IS NOT NULL OR rate_count IS NOT NULL", name=op.f("ck_limits_caps_something")),
        sa.CheckConstraint(
            "(rate_count IS NULL) = (rate_seconds IS NULL) AND (rate_count IS NULL) = (rate_burst IS NULL)",
            name=op.f("ck_limits_rate_whole"),
        ),
        sa.CheckConstraint(
            "concurrency >= 1 AND rate_count >= 1 AND rate_burst >= 1", name=op.f("ck_limits_amounts_positive")
        ),
        sa.PrimaryKeyConstraint("num", name=op.f("pk_limits")),
        sa.UniqueConstraint("room", "name", name=op.f("uq_limits_room_name")),
    )
    op.create_table(
        "limit_uses",
        sa.Column("task_seq", BigKey, nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("bucket", BigKey, nullable=False),
        sa.Column("limit_num", BigKey, nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.CheckConstraint("weight >= 1", name=op.f("ck_limit_uses_weight_positive")),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name=op.f("fk_limit_uses_task_seq"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_seq", "run_id", "bucket", name=op.f("pk_limit_uses")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_limit_uses_bucket", "limit_uses", ["bucket", "weight"], unique=False)
    op.create_index("ix_limit_uses_limit", "limit_uses", ["limit_num", "weight"], unique=False)
    op.create_table(
        "limit_tokens",
        sa.Column("bucket", BigKey, autoincrement=False, nullable=False),
        sa.Column("limit_num", BigKey, nullable=False),
        sa.Column("tokens", sa.Double(), nullable=False),
        sa.Column("filled_at", Instant(), nullable=False),
        sa.Column("opens_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("bucket", name=op.f("pk_limit_tokens")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_limit_tokens_opens_at", "limit_tokens", ["opens_at"], unique=False)
    op.create_index("ix_limit_tokens_limit_num", "limit_tokens", ["limit_num"], unique=False)
    op.create_table(
        "limit_lines",
        sa.Column("lane", BigKey, nullable=False),
        sa.Column("limit_key", sa.String(255), nullable=False),
        sa.Column("bucket", BigKey, nullable=False),
        sa.Column("limit_num", BigKey, nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("due_at", Instant(), nullable=False),
        sa.Column("seq", BigKey, nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.id"], name=op.f("fk_limit_lines_lane"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("lane", "limit_key", name=op.f("pk_limit_lines")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_limit_lines_bucket", "limit_lines", ["bucket", "lane", "rank", "due_at", "seq"], unique=False)
    op.create_index("ix_limit_lines_limit_num", "limit_lines", ["limit_num"], unique=False)
    op.add_column("schedules", sa.Column("skipped_why", sa.String(1000), nullable=True))
    op.add_column("tasks", sa.Column("limits", Json, nullable=True))
    op.add_column("tasks", sa.Column("parked", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.drop_index("ix_tasks_target_open", "tasks")
    _index("ix_tasks_target_open", ["target_num"], _TARGETED + "(parked OR NOT blocked)")
    _index(
        "ix_tasks_line",
        ["lane", "limit_key", "priority DESC", "due_at", "seq"],
        _LIMITED + "status = 'pending' AND (parked OR NOT blocked)",
    )
    _index("ix_tasks_line_open", ["lane", "limit_key"], _LIMITED + "status = 'pending' AND NOT blocked")
    _index("ix_tasks_limited", ["limit_key", "status"], _LIMITED + "completed_at IS NULL")


def downgrade() -> None:
    for name in ("ix_tasks_limited", "ix_tasks_line_open", "ix_tasks_line", "ix_tasks_target_open"):
        op.drop_index(name, "tasks")
    _index("ix_tasks_target_open", ["target_num"], _TARGETED + "NOT blocked")
    op.drop_column("schedules", "skipped_why")
    op.drop_column("tasks", "parked")
    op.drop_column("tasks", "limits")
    for name in ("limit_lines", "limit_tokens", "limit_uses", "limits"):
        op.drop_table(name)
    op.create_table(
        "limits",
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.CheckConstraint("most >= 0", name="ck_limits_most_not_negative"),
        sa.PrimaryKeyConstraint("key", name="pk_limits"),
    )
