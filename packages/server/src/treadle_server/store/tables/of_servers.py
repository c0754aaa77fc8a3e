"""The tables about the database itself: facts, the servers that share it, and the sequences of keys."""

from sqlalchemy import Boolean, Column, Sequence, String, Table, Text

from treadle_server.store.tables.base import metadata
from treadle_server.store.types import BigKey, Id, Instant

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

"""Small facts about the database, such as when a server last used it. On PostgreSQL migration 0019 adds a check of the
row that names the exclusive writer."""

servers = Table(
    "servers",
    metadata,
    Column("id", Id, primary_key=True),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("said", BigKey, nullable=False),
    Column("wants_each", Boolean, nullable=False),
)

"""PostgreSQL: the servers that share the database, how many notices each has sent, and whether it wants every
change."""

SEQUENCES = {
    name: Sequence(f"treadle_{name}", metadata=metadata) for name in ("task_seq", "job_num", "lane_id", "target_num")
}

"""PostgreSQL's sequences of keys. SQLite has one writer, which counts by itself."""
