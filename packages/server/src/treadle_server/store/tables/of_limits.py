"""The tables of limits: what each allows, its use, the tokens left, and the lines that wait for room."""

from sqlalchemy import CheckConstraint, Column, Double, ForeignKey, Index, Integer, String, Table, UniqueConstraint

from treadle_server.store.tables.base import metadata
from treadle_server.store.types import BigKey, Instant

limits = Table(
    "limits",
    metadata,
    Column("num", BigKey, primary_key=True, autoincrement=False),
    Column("room", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("concurrency", Integer),
    Column("rate_count", Integer),
    Column("rate_seconds", Double),
    Column("rate_burst", Integer),
    Column("created_at", Instant, nullable=False),
    Column("version", Integer, nullable=False),
    Column("on_full", String(16), nullable=False, server_default="wait"),
    UniqueConstraint("room", "name"),
    CheckConstraint("on_full IN ('newest', 'reject', 'replace', 'wait')", name="on_full_known"),
    CheckConstraint("concurrency IS NOT NULL OR rate_count IS NOT NULL", name="caps_something"),
    CheckConstraint(
        "(rate_count IS NULL) = (rate_seconds IS NULL) AND (rate_count IS NULL) = (rate_burst IS NULL)",
        name="rate_whole",
    ),
    CheckConstraint("concurrency >= 1 AND rate_count >= 1 AND rate_burst >= 1", name="amounts_positive"),
)

"""`num` is derived from the room and name (`domain/limits.py`), so a limit that is created again is the same one."""

limit_uses = Table(
    "limit_uses",
    metadata,
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Column("run_id", Integer, primary_key=True),
    Column("bucket", BigKey, primary_key=True),
    Column("limit_num", BigKey, nullable=False),
    Column("weight", Integer, nullable=False),
    CheckConstraint("weight >= 1", name="weight_positive"),
    Index("ix_limit_uses_bucket", "bucket", "weight"),
    Index("ix_limit_uses_limit", "limit_num", "weight"),
    sqlite_with_rowid=False,
)

"""What a run counts against limits, from its claim until its code has stopped. A bucket is a limit for one of its
keys."""

limit_tokens = Table(
    "limit_tokens",
    metadata,
    Column("bucket", BigKey, primary_key=True, autoincrement=False),
    Column("limit_num", BigKey, nullable=False),
    Column("tokens", Double, nullable=False),
    Column("filled_at", Instant, nullable=False),
    Column("opens_at", Instant),
    Index("ix_limit_tokens_opens_at", "opens_at"),
    Index("ix_limit_tokens_limit_num", "limit_num"),
    sqlite_with_rowid=False,
)

"""The tokens that a bucket had at `filled_at`; one without a row is full. A waiting line may go on at `opens_at`."""

limit_lines = Table(
    "limit_lines",
    metadata,
    Column("lane", ForeignKey("lanes.id", ondelete="CASCADE"), primary_key=True),
    Column("limit_key", String(255), primary_key=True),
    Column("bucket", BigKey, nullable=False),
    Column("limit_num", BigKey, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("seq", BigKey, nullable=False),
    Index("ix_limit_lines_bucket", "bucket", "lane", "rank", "due_at", "seq"),
    Index("ix_limit_lines_limit_num", "limit_num"),
    sqlite_with_rowid=False,
)

"""Waiting lines, each with the bucket that has no room for its first task, and that task's place; `rank` is
-priority."""
