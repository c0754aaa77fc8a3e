"""What a task's earlier runs have used, and whether it goes first in its target's line."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_PENDING = "target_num IS NOT NULL AND status = 'pending' AND "


def _index(name: str, condition: str) -> None:
    where = sa.text(_PENDING + condition)
    op.create_index(name, "tasks", ["target_num"], unique=False, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    op.add_column("tasks", sa.Column("usage_before", sa.Double(), nullable=True))
    op.add_column("tasks", sa.Column("goes_first", sa.Boolean(), nullable=False, server_default=sa.false()))
    # Until now a task's usage was that of its last run, and whatever had run went first.
    op.execute("UPDATE tasks SET usage_before = usage WHERE usage IS NOT NULL AND taken_until IS NULL")
    op.execute("UPDATE tasks SET goes_first = (run_id >= 0) WHERE target_num IS NOT NULL AND run_id >= 0")
    op.drop_index("ix_tasks_target_again", "tasks")
    _index("ix_tasks_target_first", "goes_first")


def downgrade() -> None:
    op.drop_index("ix_tasks_target_first", "tasks")
    _index("ix_tasks_target_again", "run_id >= 0")
    op.drop_column("tasks", "goes_first")
    op.drop_column("tasks", "usage_before")
