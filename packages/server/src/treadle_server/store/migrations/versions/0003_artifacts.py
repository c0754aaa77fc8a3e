"""Indexes by which artifacts are swept, and objects without one are found."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_UPLOADING = sa.text("state = 'uploading'")


def upgrade() -> None:
    op.create_index("uq_artifacts_location", "artifacts", ["location"], unique=True)
    op.create_index("ix_artifacts_expires_at", "artifacts", ["expires_at"])
    op.create_index(
        "ix_artifacts_uploading", "artifacts", ["created_at"], sqlite_where=_UPLOADING, postgresql_where=_UPLOADING
    )


def downgrade() -> None:
    for name in ("ix_artifacts_uploading", "ix_artifacts_expires_at", "uq_artifacts_location"):
        op.drop_index(name, "artifacts")
