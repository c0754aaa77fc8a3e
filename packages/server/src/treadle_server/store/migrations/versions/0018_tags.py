"""An index of tags: for each task the keys of what it has, a hash of the name, and of the name with its value."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op
from pydantic_core import from_json

from treadle_server.store.types import BigKey

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_AT_ONCE = 5000


def upgrade() -> None:
    table = op.create_table(
        "task_tags",
        sa.Column("key", BigKey, autoincrement=False, nullable=False),
        sa.Column("task_seq", BigKey, nullable=False),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name=op.f("fk_task_tags_task_seq"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("key", "task_seq", name=op.f("pk_task_tags")),
        sqlite_with_rowid=False,
    )
    for rows in _tagged(op.get_bind()):
        op.get_bind().execute(table.insert(), rows)
    op.create_index(op.f("ix_task_tags_task_seq"), "task_tags", ["task_seq"], unique=False)


def _tagged(connection: sa.Connection) -> Iterator[list[dict[str, int]]]:
    """Yield the rows of a few thousand tasks after the other. Until now a tag was a text."""
    statement = sa.text(
        "SELECT seq, CAST(tags AS TEXT) FROM tasks WHERE tags IS NOT NULL AND seq > :last ORDER BY seq LIMIT :most"
    )
    last = -1
    while found := connection.execute(statement, {"last": last, "most": _AT_ONCE}).all():
        last = found[-1][0]
        if rows := [{"key": key, "task_seq": seq} for seq, tags in found for key in _keys(from_json(tags))]:
            yield rows


def _keys(tags: Any) -> set[int]:
    if not isinstance(tags, dict):
        return set()
    words = [f"{name}\0" for name in tags] + [f"{name}\0s{text}" for name, text in tags.items()]
    hashes = [blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest() for word in words]
    return {int.from_bytes(one, "big", signed=True) for one in hashes}


def downgrade() -> None:
    op.drop_table("task_tags")
