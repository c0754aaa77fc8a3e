"""One index of the lines of limits instead of two, one of limited tasks that a claim leaves alone, one quick to pass."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_LIMITED = "limit_key IS NOT NULL AND "
_OPEN = _LIMITED + "completed_at IS NULL"
_SEVERAL = "limit_key LIKE '% %' AND status = 'pending'"
_ORDER = ["priority DESC", "due_at", "seq"]


def _index(name: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    terms = [sa.text(column) if " " in column else column for column in columns]
    op.create_index(name, "tasks", terms, unique=False, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    for name in ("ix_tasks_limited", "ix_tasks_line_open", "ix_tasks_line", "ix_tasks_several_limits"):
        op.drop_index(name, "tasks")
    _index("ix_tasks_line", ["limit_key", "lane", "blocked", "parked", *_ORDER], _LIMITED + "status LIKE 'pending'")
    _index("ix_tasks_limited", ["limit_key"], _OPEN)
    _index("ix_tasks_several_limits", ["limit_key"], _LIMITED + _SEVERAL)


def downgrade() -> None:
    for name in ("ix_tasks_limited", "ix_tasks_line", "ix_tasks_several_limits"):
        op.drop_index(name, "tasks")
    _index("ix_tasks_line", ["lane", "limit_key", *_ORDER], _LIMITED + "status = 'pending' AND (parked OR NOT blocked)")
    _index("ix_tasks_line_open", ["lane", "limit_key"], _LIMITED + "status = 'pending' AND NOT blocked")
    _index("ix_tasks_limited", ["limit_key", "status"], _OPEN)
    _index("ix_tasks_several_limits", ["limit_key"], _SEVERAL)
