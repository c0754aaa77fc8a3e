"""Which trace a task belongs to: the context that its submitter gave, as W3C writes it."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("trace", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("tasks", "trace")
