"""The first schema: jobs, lanes, tasks, runs, holds, workers, targets, schedules, tokens, artifacts."""

from alembic import op

from treadle_server.store.tables import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
