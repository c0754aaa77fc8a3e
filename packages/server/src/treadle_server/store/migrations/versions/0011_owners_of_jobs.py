"""Who registered each job: of those that are there the user whose workers serve it, when they are one user's."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("owner", sa.String(length=255), nullable=True))
    op.execute(
        "UPDATE jobs SET owner = (SELECT min(workers.owner) FROM worker_jobs"
        " JOIN workers ON workers.id = worker_jobs.worker_id WHERE worker_jobs.job_num = jobs.num"
        " HAVING count(DISTINCT workers.owner) = 1)"
    )


def downgrade() -> None:
    op.drop_column("jobs", "owner")
