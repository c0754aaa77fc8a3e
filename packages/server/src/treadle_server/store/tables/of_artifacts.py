"""The table of artifacts; their content is in an object store."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from treadle_server.store.tables.base import metadata, partial_index
from treadle_server.store.types import BigKey, Id, Instant

artifacts = Table(
    "artifacts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("task_seq", BigKey, nullable=False),
    Column("run_id", Integer, nullable=False),
    Column("name", String(1024), nullable=False),
    Column("content_type", String(255), nullable=False),
    Column("size", BigKey, nullable=False),
    Column("sha256", LargeBinary),
    Column("location", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    UniqueConstraint("task_seq", "run_id", "name"),
    ForeignKeyConstraint(["task_seq"], ["tasks.seq"], ondelete="CASCADE"),
    CheckConstraint("state IN ('uploading', 'stored')", name="state_known"),
    Index("uq_artifacts_location", "location", unique=True),
    Index(None, "expires_at"),
)

"""Files of runs: those that are stored, and those whose upload was announced. The content is kept elsewhere."""

partial_index("ix_artifacts_uploading", artifacts.c.created_at, where="state = 'uploading'")
