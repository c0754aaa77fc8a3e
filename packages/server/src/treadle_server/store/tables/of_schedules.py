"""The tables of schedules, and of ticks that made a task."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
)

from treadle_server.store.tables.base import metadata
from treadle_server.store.types import Id, Instant, Json

schedules = Table(
    "schedules",
    metadata,
    Column("id", Id, primary_key=True),
    Column("room", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("job_num", ForeignKey("jobs.num"), nullable=False),
    Column("payload", Json, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("template", Json, nullable=False),
    Column("cron", String(255)),
    Column("zone", String(64)),
    Column("interval_seconds", Double),
    Column("jitter_seconds", Double, nullable=False),
    Column("missed", String(8), nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("next_at", Instant),
    Column("last_at", Instant),
    Column("last_task_id", Id),
    Column("owner", String(255), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("content_hash", String(64)),
    Column("deleted_at", Instant),
    Column("version", Integer, nullable=False),
    Column("skipped_at", Instant),
    Column("skipped_for", Id),
    Column("skipped_why", String(1000)),
    UniqueConstraint("room", "name"),
    CheckConstraint("(cron IS NULL) <> (interval_seconds IS NULL)", name="cron_or_interval"),
    CheckConstraint("missed IN ('late', 'skip')", name="missed_known"),
    Index(None, "next_at"),
    Index(None, "job_num"),
)

schedule_ticks = Table(
    "schedule_ticks",
    metadata,
    Column("schedule_id", ForeignKey("schedules.id", ondelete="CASCADE"), primary_key=True),
    Column("tick", Instant, primary_key=True),
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), nullable=False),
    Index(None, "task_seq"),
)

"""The task that each tick made, never more than one. Tasks that were triggered by hand have no tick."""
