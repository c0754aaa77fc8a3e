"""PostgreSQL: who names the sole writer names the revision of the schema too, so that older servers write no more.

Servers up to 0018 write no revision. One that still runs when this is applied finds another name than it believes at the
beginning of its next transaction, and fails as it tries to take it out (`store/sole.py`). SQLite has one server at a time.
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

NAME = "a_newer_treadle_server_has_migrated_this_database"
"""It is what an older server says in its log."""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DELETE FROM meta WHERE key = 'sole_writer' AND value NOT LIKE '%:%'")
        op.execute(f"ALTER TABLE meta ADD CONSTRAINT {NAME} CHECK (key <> 'sole_writer' OR value LIKE '%:%')")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE meta DROP CONSTRAINT {NAME}")
