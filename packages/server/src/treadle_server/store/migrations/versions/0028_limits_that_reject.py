"""Limits that reject: what a limit does when it is full, and an index of waiting tasks that have several limits."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_SEVERAL = sa.text("limit_key LIKE '% %' AND status = 'pending'")


def upgrade() -> None:
    # Both databases take the check with the column: no row is rewritten.
    op.execute(
        "ALTER TABLE limits ADD COLUMN on_full VARCHAR(16) DEFAULT 'wait' NOT NULL"
        " CONSTRAINT ck_limits_on_full_known CHECK (on_full IN ('wait', 'reject'))"
    )
    op.create_index("ix_tasks_several_limits", "tasks", ["limit_key"], sqlite_where=_SEVERAL, postgresql_where=_SEVERAL)


def downgrade() -> None:
    op.drop_index("ix_tasks_several_limits", "tasks")
    op.drop_column("limits", "on_full")
