"""Schedules with the payload and schema version of their tasks, and the ticks for which tasks were made."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Id, Instant, Json

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def _create(*more: sa.Column[object] | sa.CheckConstraint) -> None:
    op.create_table(
        "schedules",
        sa.Column("id", Id, nullable=False),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("job_num", BigKey, nullable=False),
        sa.Column("template", Json, nullable=False),
        sa.Column("cron", sa.String(length=255), nullable=True),
        sa.Column("zone", sa.String(length=64), nullable=True),
        sa.Column("interval_seconds", sa.Double(), nullable=True),
        sa.Column("jitter_seconds", sa.Double(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("next_at", Instant(), nullable=True),
        sa.Column("last_at", Instant(), nullable=True),
        sa.Column("last_task_id", Id, nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("deleted_at", Instant(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        *more,
        sa.CheckConstraint("(cron IS NULL) <> (interval_seconds IS NULL)", name="ck_schedules_cron_or_interval"),
        sa.ForeignKeyConstraint(["job_num"], ["jobs.num"], name="fk_schedules_job_num"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("room", "name", name="uq_schedules_room_name"),
    )
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"], unique=False)


def upgrade() -> None:
    # Nothing could put a row into it before.
    op.drop_table("schedules")
    _create(
        sa.Column("payload", Json, nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("missed", sa.String(length=8), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=True),
        sa.CheckConstraint("missed IN ('late', 'skip')", name="ck_schedules_missed_known"),
    )
    op.create_index("ix_schedules_job_num", "schedules", ["job_num"], unique=False)
    op.create_table(
        "schedule_ticks",
        sa.Column("schedule_id", Id, nullable=False),
        sa.Column("tick", Instant(), nullable=False),
        sa.Column("task_seq", BigKey, nullable=False),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedules.id"], name="fk_schedule_ticks_schedule_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name="fk_schedule_ticks_task_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("schedule_id", "tick", name="pk_schedule_ticks"),
    )
    op.create_index("ix_schedule_ticks_task_seq", "schedule_ticks", ["task_seq"], unique=False)


def downgrade() -> None:
    op.drop_table("schedule_ticks")
    op.drop_table("schedules")
    _create()
