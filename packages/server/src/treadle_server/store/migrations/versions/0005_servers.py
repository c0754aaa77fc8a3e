"""The servers that share a database, and at which of them a worker has opened itself."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Id, Instant

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("home", Id))
    op.add_column("workers", sa.Column("home_at", Instant))
    op.create_table(
        "servers",
        sa.Column("id", Id, nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("seen_at", Instant, nullable=False),
        sa.Column("said", BigKey, nullable=False),
        sa.Column("wants_each", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_servers"),
    )


def downgrade() -> None:
    op.drop_table("servers")
    op.drop_column("workers", "home_at")
    op.drop_column("workers", "home")
