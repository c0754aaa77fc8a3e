"""When a run was last taken from a worker that had not been heard of."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import Instant

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("run_lost_at", Instant(), nullable=True))


def downgrade() -> None:
    op.drop_column("workers", "run_lost_at")
