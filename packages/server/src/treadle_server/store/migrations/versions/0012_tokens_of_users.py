"""Tokens by user: what a user without a valid one owns stands still."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_tokens_user", "tokens", ["user"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_tokens_user", "tokens")
