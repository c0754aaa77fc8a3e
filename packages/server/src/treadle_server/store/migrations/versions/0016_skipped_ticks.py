"""Which tick of a schedule was skipped last because an open task held its unique key, and which task that was."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import Id, Instant

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("schedules", sa.Column("skipped_at", Instant(), nullable=True))
    op.add_column("schedules", sa.Column("skipped_for", Id, nullable=True))


def downgrade() -> None:
    op.drop_column("schedules", "skipped_for")
    op.drop_column("schedules", "skipped_at")
