"""Webhooks, and the outbox of what they are still to be told."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Id, Instant, Json

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", Id, nullable=False),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("jobs", Json, nullable=True),
        sa.Column("statuses", Json, nullable=False),
        sa.Column("secret", sa.String(length=128), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sa.UniqueConstraint("room", "name", name="uq_webhooks_room_name"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", Id, nullable=False),
        sa.Column("webhook_id", Id, nullable=False),
        sa.Column("task_seq", BigKey, nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", Instant(), nullable=True),
        sa.Column("dead_at", Instant(), nullable=True),
        sa.Column("answered", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("(next_at IS NULL) <> (dead_at IS NULL)", name="ck_webhook_deliveries_waiting_or_dead"),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name="fk_webhook_deliveries_task_seq", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="fk_webhook_deliveries_webhook_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
    )
    op.create_index("ix_webhook_deliveries_task_seq", "webhook_deliveries", ["task_seq"])
    for kind, at in (("waiting", "next_at"), ("dead", "dead_at")):
        condition = sa.text(f"{at} IS NOT NULL")
        op.create_index(
            f"ix_webhook_deliveries_{kind}",
            "webhook_deliveries",
            ["webhook_id", at],
            sqlite_where=condition,
            postgresql_where=condition,
        )


def downgrade() -> None:
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
