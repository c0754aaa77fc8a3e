"""The lists of jobs and rooms in a table of their own, which no claim and no completion writes to."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "task_listings",
        sa.Column("job_num", _KEY, autoincrement=False, nullable=False),
        sa.Column("task_seq", _KEY, autoincrement=False, nullable=False),
        sa.Column("room", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("job_num", "task_seq", name="pk_task_listings"),
        sqlite_with_rowid=False,
    )
    # In the order of the primary key, whose pages are filled one after the other.
    op.execute(
        "INSERT INTO task_listings (job_num, task_seq, room) SELECT job_num, seq, room FROM tasks ORDER BY job_num, seq"
    )
    op.create_index("ix_task_listings_room", "task_listings", ["room", "task_seq"])
    op.drop_index("ix_tasks_job", "tasks")
    op.drop_index("ix_tasks_room", "tasks")


def downgrade() -> None:
    op.create_index("ix_tasks_job", "tasks", ["job_num", "seq"])
    op.create_index("ix_tasks_room", "tasks", ["room", "seq"])
    op.drop_table("task_listings")
