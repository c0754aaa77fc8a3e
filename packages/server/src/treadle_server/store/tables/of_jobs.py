"""The tables of jobs: their schemas, the lanes of their queues, and counts of their tasks."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Sequence,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from treadle_server.store.tables.base import metadata
from treadle_server.store.types import BigKey, Id, Instant, Json

jobs = Table(
    "jobs",
    metadata,
    Column("num", BigKey, primary_key=True, autoincrement=False),
    Column("id", Id, nullable=False, unique=True),
    Column("room", String(255), nullable=False),
    Column("category", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("schema", Json, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("defaults", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("retain", Boolean, nullable=False),
    Column("fair", String(16)),
    Column("paused", Boolean, nullable=False),
    Column("deleted_at", Instant),
    Column("version", Integer, nullable=False),
    Column("origin", Text),
    Column("encrypted", Boolean, nullable=False, server_default=false()),
    Column("owner", String(255)),
    UniqueConstraint("room", "category", "name"),
    CheckConstraint("fair IS NULL OR fair = 'room'", name="fair_known"),
)

job_schemas = Table(
    "job_schemas",
    metadata,
    Column("job_num", ForeignKey("jobs.num", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("schema", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
)

"""Every schema that a job has had: pending tasks keep the one that they were validated against."""

lanes = Table(
    "lanes",
    metadata,
    Column("id", BigKey, primary_key=True, autoincrement=False),
    Column("job_num", ForeignKey("jobs.num", ondelete="CASCADE"), nullable=False),
    Column("room", String(255), nullable=False),
    Column("pool", String(255), nullable=False),
    UniqueConstraint("job_num", "room", "pool"),
    Index("uq_lanes_id_job_num", "id", "job_num", unique=True),
)

lane_counts = Table(
    "lane_counts",
    metadata,
    Column("lane", ForeignKey("lanes.id", ondelete="CASCADE"), primary_key=True),
    Column("status", String(16), primary_key=True),
    Column("priority", Integer, primary_key=True),
    Column("n", BigKey, nullable=False),
)

"""The kept counts of tasks; only pending tasks are counted by priority, others with 0."""

count_deltas = Table(
    "count_deltas",
    metadata,
    Column("id", BigKey, Sequence("count_deltas_id", metadata=metadata), primary_key=True),
    Column("lane", BigKey, nullable=False),
    Column("status", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("n", BigKey, nullable=False),
)

"""PostgreSQL: changes of `lane_counts` that are not folded in yet; without them writers would wait for the same
rows."""

past_outcomes = Table(
    "past_outcomes",
    metadata,
    Column("lane", ForeignKey("lanes.id", ondelete="CASCADE"), primary_key=True),
    Column("status", String(16), primary_key=True),
    Column("n", BigKey, nullable=False),
)

"""How many tasks reached a terminal status and have since left it, or were removed."""
