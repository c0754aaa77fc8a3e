"""Indexes of when runs have had their time: the sums of an instant and a task's own seconds (store/limits.py)."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SUM = {
    "sqlite": "({since} + {seconds} * 1000000)",
    "postgresql": "(timezone('UTC', {since}) + {seconds} * interval '1 second')",
}


def upgrade() -> None:
    of = _SUM[op.get_bind().dialect.name]
    op.execute(
        f"CREATE INDEX ix_tasks_start_limit ON tasks ({of.format(since='claimed_at', seconds='start_timeout')}) "
        "WHERE status = 'claimed' AND job_name NOT LIKE '@internal:%'"
    )
    op.execute(
        f"CREATE INDEX ix_tasks_run_limit ON tasks ({of.format(since='started_at', seconds='timeout')}) "
        "WHERE status = 'running' AND timeout IS NOT NULL"
    )


def downgrade() -> None:
    op.drop_index("ix_tasks_run_limit", "tasks")
    op.drop_index("ix_tasks_start_limit", "tasks")
