"""The tables: what Treadle keeps, and the invariants that the database itself holds."""

from enum import StrEnum

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Sequence,
    String,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    false,
    text,
)

from treadle.wire.status import LEASED, Outcome, Reason, Status, WorkerState
from treadle_server.store.types import BigKey, Id, Instant, Json

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _quoted(values: object) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))  # type: ignore[call-overload]


def _either(column: str, *values: str) -> str:
    """Return the condition that the column has one of the values.

    SQLite makes a table of an IN with more than two values anew for each row that it writes: 3 of 11 microseconds of
    a claim went into such tables of checks and partial indexes. It also proves an index's OR from one of its parts.
    """
    return "(" + " OR ".join(f"{column} = '{value}'" for value in values) + ")"


def _one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(_either(column, *values), name=f"{column}_known")


def _status_in(values: object) -> str:
    return f"status IN ({_quoted(values)})"


def status_in(*statuses: Status) -> TextClause:
    """Return the condition that a task's status is one of these, spelt with literals as in the partial indexes.

    With a bound value neither planner could prove that such an index applies.
    """
    if len(statuses) == 1:
        return text(f"tasks.status = '{statuses[0]}'")
    return text(f"tasks.status IN ({_quoted(statuses)})")


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
"""Every schema that a job has had: pending tasks keep the one that they were checked against."""

lanes = Table(
    "lanes",
    metadata,
    Column("id", BigKey, primary_key=True, autoincrement=False),
    Column("job_num", ForeignKey("jobs.num", ondelete="CASCADE"), nullable=False),
    Column("room", String(255), nullable=False),
    Column("pool", String(255), nullable=False),
    UniqueConstraint("job_num", "room", "pool"),
)

lane_counts = Table(
    "lane_counts",
    metadata,
    Column("lane", ForeignKey("lanes.id", ondelete="CASCADE"), primary_key=True),
    Column("status", String(16), primary_key=True),
    Column("priority", Integer, primary_key=True),
    Column("n", BigKey, nullable=False),
)
"""How many tasks stand where; the priority is kept for pending ones only and 0 otherwise."""

count_deltas = Table(
    "count_deltas",
    metadata,
    Column("id", BigKey, Sequence("count_deltas_id", metadata=metadata), primary_key=True),
    Column("lane", BigKey, nullable=False),
    Column("status", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("n", BigKey, nullable=False),
)
"""PostgreSQL: changes of `lane_counts` that are not folded in yet, so that writers never wait for one row."""

past_outcomes = Table(
    "past_outcomes",
    metadata,
    Column("lane", ForeignKey("lanes.id", ondelete="CASCADE"), primary_key=True),
    Column("status", String(16), primary_key=True),
    Column("n", BigKey, nullable=False),
)
"""How many tasks came to an end and have left it again, or were removed."""

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
    _one_of("state", WorkerState),
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
    Column("worker_id", ForeignKey("workers.id", ondelete="CASCADE"), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("runs", Json, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
"""What was claimed under which `Idempotency-Key`, with a digest of the request's body."""

targets = Table(
    "targets",
    metadata,
    Column("num", BigKey, primary_key=True, autoincrement=False),
    Column("room", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    UniqueConstraint("room", "name"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("seq", BigKey, primary_key=True, autoincrement=False),
    Column("id", Id, nullable=False, unique=True),
    Column("job_num", ForeignKey("jobs.num"), nullable=False),
    Column("lane", ForeignKey("lanes.id"), nullable=False),
    Column("job_name", String(1024), nullable=False),
    Column("room", String(255), nullable=False),
    Column("status", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("payload", Json, nullable=False),
    Column("content_hash", LargeBinary, nullable=False),
    Column("submitter", String(255), nullable=False),
    Column("max_retries", Integer, nullable=False),
    Column("max_requeues", Integer, nullable=False),
    Column("retry_base", Double, nullable=False),
    Column("retry_multiplier", Double, nullable=False),
    Column("retry_randomization", Double, nullable=False),
    Column("lease_seconds", Double, nullable=False),
    Column("start_timeout", Double, nullable=False),
    Column("heartbeat_increment", Double, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("timeout", Double),
    Column("weight", Integer, nullable=False),
    Column("on_failure", String(8), nullable=False),
    Column("blocked", Boolean, nullable=False),
    Column("target_num", ForeignKey("targets.num")),
    Column("target", String(255)),
    Column("deadline", Instant),
    Column("pool", String(255)),
    Column("tags", Json),
    Column("scopes", Json),
    Column("unique_key", String(255)),
    Column("limit_key", String(255)),
    Column("budget", Double),
    Column("schedule_id", Id),
    Column("version", Integer, nullable=False),
    Column("run_id", Integer, nullable=False),
    Column("worker_id", Id),
    Column("taken_until", Instant),
    Column("unfenced", Boolean, nullable=False),
    Column("claimed_at", Instant),
    Column("started_at", Instant),
    Column("completed_at", Instant),
    Column("next_retry_at", Instant),
    Column("retry_count", Integer, nullable=False),
    Column("requeue_count", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("settled", Boolean, nullable=False),
    Column("usage", Double),
    Column("result", Json),
    Column("error", Text),
    Column("reason", String(32)),
    Column("checkpoint", Json),
    Column("progress", Json),
    Column("usage_before", Double),
    Column("goes_first", Boolean, nullable=False, server_default=false()),
    _one_of("status", Status),
    CheckConstraint(f"reason IS NULL OR reason IN ({_quoted(Reason)})", name="reason_known"),
    CheckConstraint("on_failure IN ('hold', 'release')", name="on_failure_known"),
    CheckConstraint("weight >= 1", name="weight_positive"),
    CheckConstraint(
        f"(status IN ({_quoted(LEASED)})) = (taken_until IS NOT NULL)",
        name="leased_has_taken_until",
    ),
    CheckConstraint(
        f"{_either('status', 'completed', 'failed', 'cancelled')} = (completed_at IS NOT NULL)",
        name="terminal_has_completed_at",
    ),
    CheckConstraint(
        f"status NOT IN ({_quoted(LEASED)}) OR (run_id >= 0 AND worker_id IS NOT NULL)",
        name="leased_has_run_and_worker",
    ),
)
"""A task with its open run. Resolved runs stand in `runs`."""

_c = tasks.c


def _partial(name: str, *columns: object, where: str, unique: bool = False) -> Index:
    condition = text(where)
    return Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)  # type: ignore[arg-type]


queue_index = _partial(
    "ix_tasks_queue", _c.lane, _c.blocked, _c.priority.desc(), _c.due_at, _c.seq, where="status = 'pending'"
)
"""The queue itself: claims read its head, positions count in it. Its order is DESIGN.md's."""

_partial("ix_tasks_due", _c.due_at, where="status = 'scheduled'")
_partial("ix_tasks_lease", _c.taken_until, where=_status_in(LEASED))
_partial("ix_tasks_worker", _c.worker_id, where=_status_in(LEASED))
_partial("ix_tasks_deadline", _c.deadline, where="deadline IS NOT NULL AND completed_at IS NULL")
_partial(
    "uq_tasks_unique_key",
    _c.job_num,
    _c.unique_key,
    where="unique_key IS NOT NULL AND completed_at IS NULL",
    unique=True,
)
_partial("uq_tasks_live_target", _c.target_num, where=f"target_num IS NOT NULL AND {_status_in(LEASED)}", unique=True)
HOLDING = _either("status", "claimed", "running", "paused", "scheduled", "failed")
"""The statuses in which a task may hold its target, as the index says it: a query that wants it says the same."""

_TARGETED = "target_num IS NOT NULL"
_partial(
    "ix_tasks_target_queue",
    _c.target_num,
    _c.priority.desc(),
    _c.due_at,
    _c.seq,
    where=f"{_TARGETED} AND status = 'pending'",
)
_partial("ix_tasks_target_open", _c.target_num, where=f"{_TARGETED} AND status = 'pending' AND NOT blocked")
_partial("ix_tasks_target_first", _c.target_num, where=f"{_TARGETED} AND status = 'pending' AND goes_first")
_partial(
    "ix_tasks_target_held",
    _c.target_num,
    where=f"{_TARGETED} AND NOT settled AND {HOLDING}",
)
_partial(
    "ix_tasks_held",
    _c.job_num,
    _c.status,
    _c.seq,
    where=_either("status", "failed", "paused", "cancelled", "scheduled"),
)
Index("ix_tasks_job", _c.job_num, _c.seq)
Index("ix_tasks_room", _c.room, _c.seq)

runs = Table(
    "runs",
    metadata,
    Column("task_seq", BigKey, primary_key=True, autoincrement=False),
    Column("run_id", Integer, primary_key=True),
    Column("status", String(16), nullable=False),
    Column("reason", String(32)),
    Column("error", Text),
    Column("traceback", Text),
    Column("worker_id", Id),
    Column("usage", Double),
    Column("claimed_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant, nullable=False),
    Column("digest", LargeBinary),
    _one_of("status", Outcome),
    CheckConstraint("run_id >= 0", name="run_id_from_zero"),
    # PostgreSQL would look each task up that the same statement has just changed: 3 to 7 of 45 microseconds.
    ForeignKeyConstraint(["task_seq"], ["tasks.seq"], ondelete="CASCADE").ddl_if(dialect="sqlite"),
    sqlite_with_rowid=False,
)
"""Resolved attempts, written once. On PostgreSQL whoever removes tasks removes their runs (`prune.py`)."""

failures = Table(
    "failures",
    metadata,
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Column("run_id", Integer, primary_key=True),
    Column("key", BigKey, nullable=False),
    Column("at", Instant, nullable=False),
    Column("job_num", BigKey, nullable=False),
    Column("room", String(255), nullable=False),
    Column("is_final", Boolean, nullable=False),
    Column("kind", String(255), nullable=False),
    Column("place", String(255), nullable=False),
    Index("ix_failures_at", "at", "task_seq"),
    Index("ix_failures_key", "key", "at"),
    Index("ix_failures_job_num", "job_num", "at", "task_seq"),
    Index("ix_failures_room", "room", "at", "task_seq"),
)
"""Runs that failed, by what and where (`domain/failures.py`); `is_final` are those with which their task failed."""

task_tags = Table(
    "task_tags",
    metadata,
    Column("key", BigKey, primary_key=True, autoincrement=False),
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Index(None, "task_seq"),
    sqlite_with_rowid=False,
)
"""By what tags a task is found (`store/transaction/tags.py`); the tags themselves stand in `tasks`."""

holds = Table(
    "holds",
    metadata,
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Column("run_id", Integer, primary_key=True),
    Column("worker_id", Id, nullable=False),
    Column("target_num", ForeignKey("targets.num")),
    Column("weight", Integer, nullable=False),
    Column("until", Instant, nullable=False),
    Column("slot_only", Boolean, nullable=False, server_default=false()),
)
"""Runs that are over but whose code may still run; a target has at most one. `slot_only`: the next run may go on."""
_partial("uq_holds_target", holds.c.target_num, where="target_num IS NOT NULL", unique=True)
Index("ix_holds_until", holds.c.until)
Index("ix_holds_worker_id", holds.c.worker_id)

task_logs = Table(
    "task_logs",
    metadata,
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Column("run_id", Integer, primary_key=True),
    Column("line", BigKey, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("level", String(16), nullable=False),
    Column("message", Text, nullable=False),
)

task_dependencies = Table(
    "task_dependencies",
    metadata,
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Column("needs_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Index(None, "needs_seq"),
)

limits = Table(
    "limits",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("most", Integer, nullable=False),
    CheckConstraint("most >= 0", name="most_not_negative"),
)
"""How many tasks with one `limit_key` may run at once."""

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
"""Which task was made for which tick: there are never two for one. What was run by hand has none."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("user", String(255), nullable=False),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("superuser", Boolean, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Index(None, "user"),
)
"""Bearer tokens; only a digest of the secret is kept."""

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("valid_until", Instant),
)
"""Keys of temporary credentials: the one without an end signs, the others only verify until theirs."""

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
"""Files of runs: those that are stored, and those whose upload was announced; the objects are kept elsewhere."""
_partial("ix_artifacts_uploading", artifacts.c.created_at, where="state = 'uploading'")

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("room", String(255), nullable=False),
    Column("name", String(64), nullable=False),
    Column("url", Text, nullable=False),
    Column("jobs", Json),
    Column("statuses", Json, nullable=False),
    Column("secret", String(128), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("room", "name"),
)
"""Where outcomes of a room's tasks are told; the secret signs what is sent, so it is kept as it is."""

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("webhook_id", ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), nullable=False),
    Column("status", String(16), nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Instant),
    Column("dead_at", Instant),
    Column("answered", Integer),
    Column("error", Text),
    CheckConstraint("(next_at IS NULL) <> (dead_at IS NULL)", name="waiting_or_dead"),
    Index(None, "task_seq"),
)
"""The outbox: outcomes that are still to be told, and the dead ones, which are not tried any more by themselves.

`next_at` is when it is tried next, or, while a server is at it, when another one may take it over.
"""
_partial(
    "ix_webhook_deliveries_waiting",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.next_at,
    where="next_at IS NOT NULL",
)
_partial(
    "ix_webhook_deliveries_dead",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.dead_at,
    where="dead_at IS NOT NULL",
)

meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""Small facts about the database itself, such as when a server last had it. On PostgreSQL migration 0019 has a check of
the row that names the exclusive writer."""

servers = Table(
    "servers",
    metadata,
    Column("id", Id, primary_key=True),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("said", BigKey, nullable=False),
    Column("wants_each", Boolean, nullable=False),
)
"""PostgreSQL: the servers that share the database, how many notices each has sent, and whether it wants each change."""

SEQUENCES = {
    name: Sequence(f"treadle_{name}", metadata=metadata) for name in ("task_seq", "job_num", "lane_id", "target_num")
}
"""PostgreSQL: where keys come from. SQLite has one writer, which counts by itself."""
