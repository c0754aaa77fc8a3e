"""Which function a job is, as its registration says."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("origin", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "origin")
