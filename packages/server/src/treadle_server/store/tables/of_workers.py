"""The tables of workers: the jobs that they serve, and what they claimed under idempotency keys."""

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, LargeBinary, String, Table, false

from treadle.wire.status import WorkerState
from treadle_server.store.tables.base import metadata, one_of
from treadle_server.store.types import Id, Instant, Json

workers = Table(
    "workers",
    metadata,
    Column("id", Id, primary_key=True),
    Column("owner", String(255), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("last_heartbeat", Instant, nullable=False),
    Column("name", String(255)),
    Column("group", String(255)),
    Column("pool", String(255)),
    Column("version", String(255)),
    Column("concurrency", Integer, nullable=False),
    Column("min_concurrency", Integer, nullable=False),
    Column("is_limited", Boolean, nullable=False, server_default=false()),
    Column("state", String(16), nullable=False),
    Column("lost_at", Instant),
    Column("home", Id),
    Column("home_at", Instant),
    Column("run_lost_at", Instant),
    one_of("state", WorkerState),
    CheckConstraint("concurrency >= 1", name="concurrency_positive"),
)

worker_jobs = Table(
    "worker_jobs",
    metadata,
    Column("worker_id", ForeignKey("workers.id", ondelete="CASCADE"), primary_key=True),
    Column("job_num", ForeignKey("jobs.num", ondelete="CASCADE"), primary_key=True),
    Index(None, "job_num"),
)

claim_keys = Table(
    "claim_keys",
    metadata,
    # As migration 0017 named it.
    Column(
        "worker_id",
        ForeignKey("workers.id", ondelete="CASCADE", name="fk_claim_keys_worker_id_workers"),
        primary_key=True,
    ),
    Column("key", String(255), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("runs", Json, nullable=False),
    Column("expires_at", Instant, nullable=False),
)

"""The runs that were claimed under each `Idempotency-Key`, with a digest of the request's body."""
