"""What was claimed under which key, so that the same request gives the same claims."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import Id, Instant, Json

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "claim_keys",
        sa.Column("worker_id", Id, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("runs", Json, nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(
            ["worker_id"], ["workers.id"], name=op.f("fk_claim_keys_worker_id_workers"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("worker_id", "key", name=op.f("pk_claim_keys")),
    )


def downgrade() -> None:
    op.drop_table("claim_keys")
