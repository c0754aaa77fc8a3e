"""The tables of tasks: targets, flows, tasks with their open run and the queues' indexes, runs, holds, tags, logs."""

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
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

from treadle.wire.status import LEASED, Outcome, Reason, Status
from treadle_server.domain.dependencies import TOLD
from treadle_server.store.tables.base import IS_LEASED, either, metadata, one_of, partial_index, quoted
from treadle_server.store.types import BigKey, Id, Instant, Json

targets = Table(
    "targets",
    metadata,
    Column("num", BigKey, primary_key=True, autoincrement=False),
    Column("room", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    UniqueConstraint("room", "name"),
)

flows = Table(
    "flows",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(255)),
    Column("room", String(255), nullable=False),
    Column("submitter", String(255), nullable=False),
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at", "id"),
)

"""Flows: tasks that were submitted together. A flow is removed with the last of its tasks."""

tasks = Table(
    "tasks",
    metadata,
    Column("seq", BigKey, primary_key=True, autoincrement=False),
    Column("id", Id, nullable=False, unique=True),
    Column("job_num", BigKey, nullable=False),
    Column("lane", BigKey, nullable=False),
    Column("job_name", String(1024), nullable=False),
    Column("room", String(255), nullable=False),
    Column("status", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("lease_seconds", Double, nullable=False),
    Column("start_timeout", Double, nullable=False),
    Column("heartbeat_increment", Double, nullable=False),
    Column("timeout", Double),
    Column("weight", Integer, nullable=False),
    Column("on_failure", String(8), nullable=False),
    Column("blocked", Boolean, nullable=False),
    Column("target_num", ForeignKey("targets.num")),
    Column("target", String(255)),
    Column("deadline", Instant),
    Column("pool", String(255)),
    Column("unique_key", String(255)),
    Column("limit_key", String(255)),
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
    Column("steps", Integer, nullable=False, server_default="0"),
    Column("limits", Json),
    Column("parked", Boolean, nullable=False, server_default=false()),
    Column("flow_id", Id),
    Column("on_dependency_failure", String(8)),
    Column("unmet", Integer),
    Column("telling", BigKey),
    Column("digest", LargeBinary),
    # The job exists because the lane's own key ensures that: one lookup for each task instead of two.
    ForeignKeyConstraint(["lane", "job_num"], ["lanes.id", "lanes.job_num"]),
    one_of("status", Status),
    CheckConstraint(f"reason IS NULL OR reason IN ({quoted(Reason)})", name="reason_known"),
    CheckConstraint("on_failure IN ('hold', 'release')", name="on_failure_known"),
    CheckConstraint("weight >= 1", name="weight_positive"),
    CheckConstraint(
        f"({IS_LEASED}) = (taken_until IS NOT NULL)",
        name="leased_has_taken_until",
    ),
    CheckConstraint(
        f"{either('status', 'completed', 'failed', 'cancelled')} = (completed_at IS NOT NULL)",
        name="terminal_has_completed_at",
    ),
    CheckConstraint(
        f"status NOT IN ({quoted(LEASED)}) OR (run_id >= 0 AND worker_id IS NOT NULL)",
        name="leased_has_run_and_worker",
    ),
    CheckConstraint("digest IS NULL OR status = 'completed'", name="digest_of_completed"),
)

"""A task's state, with its open run or, where `digest` is not null, the run that completed it (`domain/last_run.py`).

All other runs that are over are in `runs`; `store/past_runs.py` reads both.
"""

_c = tasks.c

# The queue itself: claims read its head, positions are counted in it.
partial_index("ix_tasks_queue", _c.lane, _c.blocked, _c.priority.desc(), _c.due_at, _c.seq, where="status = 'pending'")

partial_index("ix_tasks_blocked", _c.seq, where="status = 'blocked'")

partial_index("ix_tasks_flow", _c.flow_id, _c.status, _c.seq, where="flow_id IS NOT NULL")

TO_TELL = f"(telling < 0 OR (telling < {TOLD} AND completed_at IS NOT NULL))"
"""The condition that dependent tasks have yet to be updated about this one, spelt as in the index
(`domain/dependencies.py`)."""

partial_index("ix_tasks_to_tell", _c.seq, where=TO_TELL)

partial_index("ix_tasks_due", _c.due_at, where="status = 'scheduled'")

partial_index("ix_tasks_lease", _c.taken_until, where=IS_LEASED)

partial_index("ix_tasks_worker", _c.worker_id, where=IS_LEASED)

partial_index("ix_tasks_deadline", _c.deadline, where="deadline IS NOT NULL AND completed_at IS NULL")

partial_index(
    "uq_tasks_unique_key",
    _c.job_num,
    _c.unique_key,
    where="unique_key IS NOT NULL AND completed_at IS NULL",
    unique=True,
)

partial_index("uq_tasks_live_target", _c.target_num, where=f"target_num IS NOT NULL AND {IS_LEASED}", unique=True)

HOLDING = either("status", "claimed", "running", "paused", "scheduled", "failed")

"""The statuses in which a task may hold its target, spelt as in the index; queries have to repeat it to use the
index."""

_TARGETED = "target_num IS NOT NULL"

partial_index(
    "ix_tasks_target_queue",
    _c.target_num,
    _c.priority.desc(),
    _c.due_at,
    _c.seq,
    where=f"{_TARGETED} AND status = 'pending'",
)

partial_index(
    "ix_tasks_target_open", _c.target_num, where=f"{_TARGETED} AND status = 'pending' AND (parked OR NOT blocked)"
)

partial_index("ix_tasks_target_first", _c.target_num, where=f"{_TARGETED} AND status = 'pending' AND goes_first")

partial_index(
    "ix_tasks_target_held",
    _c.target_num,
    where=f"{_TARGETED} AND NOT settled AND {HOLDING}",
)

partial_index(
    "ix_tasks_held",
    _c.job_num,
    _c.status,
    _c.seq,
    where=either("status", "failed", "paused", "cancelled", "scheduled", "blocked"),
)

_LIMITED = "limit_key IS NOT NULL"

IN_LINE = f"{_LIMITED} AND status LIKE 'pending'"
"""The condition of the index of lines, spelt as in the index.

With `=` PostgreSQL could choose the queue's index, which has the same order, and without statistics it did: for each of
fifty lines it read the whole lane, 226 ms with 10,000 pending tasks.
"""

partial_index(
    "ix_tasks_line",
    _c.limit_key,
    _c.lane,
    _c.blocked,
    _c.parked,
    _c.priority.desc(),
    _c.due_at,
    _c.seq,
    where=IN_LINE,
)

"""Pending tasks by `limit_key` and lane: claimable ones, those blocked by a target, and those parked by their limits,
each in the queue's order. It is the only index of limits that a claim writes to: keys are scattered over an index, so
each further one would cost a page for each task."""

partial_index("ix_tasks_limited", _c.limit_key, where=f"{_LIMITED} AND completed_at IS NULL")

SEVERAL_LIMITS = f"{_LIMITED} AND limit_key LIKE '% %' AND status = 'pending'"
"""The condition of the index of tasks with several limits, spelt as in the index.

NOT NULL comes first, because SQLite calls a function for LIKE, for every task that is written.
"""

partial_index("ix_tasks_several_limits", _c.limit_key, where=SEVERAL_LIMITS)

"""Pending tasks with several limits, which the index of lines can't find by a single bucket."""

task_specs = Table(
    "task_specs",
    metadata,
    Column("seq", BigKey, primary_key=True, autoincrement=False),
    Column("job_num", BigKey, nullable=False),
    Column("room", String(255), nullable=False),
    Column("payload", Json, nullable=False),
    Column("content_hash", LargeBinary, nullable=False),
    Column("submitter", String(255), nullable=False),
    Column("max_retries", Integer, nullable=False),
    Column("max_requeues", Integer, nullable=False),
    Column("retry_base", Double, nullable=False),
    Column("retry_multiplier", Double, nullable=False),
    Column("retry_randomization", Double, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("tags", Json),
    Column("scopes", Json),
    Column("budget", Double),
    Column("trace", Text),
    Column("arguments_from", Json),
    ForeignKeyConstraint(["seq"], ["tasks.seq"], ondelete="CASCADE").ddl_if(dialect="sqlite"),
    Index("ix_task_specs_job", "job_num", "seq"),
    Index("ix_task_specs_room", "room", "seq"),
)

"""What a task is to do, and by which rules: inserted and removed with the task, and changed only by edits.

Both databases rewrite the whole row of `tasks` for a claim and for a completion, and PostgreSQL adds an entry to each
of the table's indexes, whatever was changed. So the payload is kept here, and the columns that only lists need
(`store/task_rows.py`). On PostgreSQL there is no cascade: `prune.py` removes these rows.
"""

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
    one_of("status", Outcome),
    CheckConstraint("run_id >= 0", name="run_id_from_zero"),
    # PostgreSQL would look up each task that the same statement has just changed: 3 to 7 of 45 microseconds.
    ForeignKeyConstraint(["task_seq"], ["tasks.seq"], ondelete="CASCADE").ddl_if(dialect="sqlite"),
    sqlite_with_rowid=False,
)

"""Runs that are over, written once; but a run that completed its task is in the task's row.

On PostgreSQL there is no cascade: `prune.py` removes these rows.
"""

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

"""Failed runs, with what failed and where (`domain/failures.py`); `is_final` if the task failed with that run."""

task_tags = Table(
    "task_tags",
    metadata,
    Column("key", BigKey, primary_key=True, autoincrement=False),
    Column("task_seq", ForeignKey("tasks.seq", ondelete="CASCADE"), primary_key=True),
    Index(None, "task_seq"),
    sqlite_with_rowid=False,
)

"""The index of tags (`store/transaction/tags.py`); the tags themselves are in `task_specs`."""

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

"""Runs that are over but whose code may still be running; a target has at most one. With `slot_only` the task's next
run need not wait for it."""

partial_index("uq_holds_target", holds.c.target_num, where="target_num IS NOT NULL", unique=True)

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
    Column("met", Boolean, nullable=False, server_default=true()),
    Column("places", Json, nullable=False, server_default=text("'[]'")),
    Index(None, "needs_seq", "task_seq"),
)

"""Which task depends on which, and the arguments that get the result: `places` is a list of [name, place]."""
