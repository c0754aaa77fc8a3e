"""The keys that sign temporary credentials."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import Instant

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "signing_keys",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("valid_until", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_signing_keys"),
    )


def downgrade() -> None:
    op.drop_table("signing_keys")
