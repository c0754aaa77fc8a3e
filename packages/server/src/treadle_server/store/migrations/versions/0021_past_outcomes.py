"""How many tasks have left an end again, by a verb or because they were removed: counters of outcomes never shrink."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "past_outcomes",
        sa.Column("lane", BigKey, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("n", BigKey, nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.id"], name="fk_past_outcomes_lane", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("lane", "status", name="pk_past_outcomes"),
    )


def downgrade() -> None:
    op.drop_table("past_outcomes")
