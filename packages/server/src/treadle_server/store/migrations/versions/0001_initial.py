"""The first schema: jobs, lanes, tasks, runs, holds, workers, targets, schedules, tokens, artifacts."""

import sqlalchemy as sa
from alembic import op

from treadle_server.store.types import BigKey, Id, Instant, Json

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SEQUENCES = ("count_deltas_id", "treadle_job_num", "treadle_lane_id", "treadle_target_num", "treadle_task_seq")


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for name in SEQUENCES:
            op.execute(sa.schema.CreateSequence(sa.Sequence(name)))
    op.create_table(
        "count_deltas",
        sa.Column("id", BigKey, nullable=False),
        sa.Column("lane", BigKey, nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("n", BigKey, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_count_deltas"),
    )
    op.create_table(
        "jobs",
        sa.Column("num", BigKey, autoincrement=False, nullable=False),
        sa.Column("id", Id, nullable=False),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("category", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("schema", Json, nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("defaults", Json, nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("retain", sa.Boolean(), nullable=False),
        sa.Column("fair", sa.String(length=16), nullable=True),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("deleted_at", Instant(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("fair IS NULL OR fair = 'room'", name="ck_jobs_fair_known"),
        sa.PrimaryKeyConstraint("num", name="pk_jobs"),
        sa.UniqueConstraint("id", name="uq_jobs_id"),
        sa.UniqueConstraint("room", "category", "name", name="uq_jobs_room_category_name"),
    )
    op.create_table(
        "limits",
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.CheckConstraint("most >= 0", name="ck_limits_most_not_negative"),
        sa.PrimaryKeyConstraint("key", name="pk_limits"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "targets",
        sa.Column("num", BigKey, autoincrement=False, nullable=False),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("num", name="pk_targets"),
        sa.UniqueConstraint("room", "name", name="uq_targets_room_name"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("superuser", sa.Boolean(), nullable=False),
        sa.Column("scopes", Json, nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.Column("revoked_at", Instant(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
    op.create_table(
        "workers",
        sa.Column("id", Id, nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("last_heartbeat", Instant(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("group", sa.String(length=255), nullable=True),
        sa.Column("pool", sa.String(length=255), nullable=True),
        sa.Column("version", sa.String(length=255), nullable=True),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("min_concurrency", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("lost_at", Instant(), nullable=True),
        sa.CheckConstraint("(state = 'online' OR state = 'draining' OR state = 'lost')", name="ck_workers_state_known"),
        sa.CheckConstraint("concurrency >= 1", name="ck_workers_concurrency_positive"),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "job_schemas",
        sa.Column("job_num", BigKey, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("schema", Json, nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["job_num"], ["jobs.num"], name="fk_job_schemas_job_num", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_num", "version", name="pk_job_schemas"),
    )
    op.create_table(
        "lanes",
        sa.Column("id", BigKey, autoincrement=False, nullable=False),
        sa.Column("job_num", BigKey, nullable=False),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("pool", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["job_num"], ["jobs.num"], name="fk_lanes_job_num", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_lanes"),
        sa.UniqueConstraint("job_num", "room", "pool", name="uq_lanes_job_num_room_pool"),
    )
    op.create_table(
        "schedules",
        sa.Column("id", Id, nullable=False),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("job_num", BigKey, nullable=False),
        sa.Column("template", Json, nullable=False),
        sa.Column("cron", sa.String(length=255), nullable=True),
        sa.Column("zone", sa.String(length=64), nullable=True),
        sa.Column("interval_seconds", sa.Double(), nullable=True),
        sa.Column("jitter_seconds", sa.Double(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("next_at", Instant(), nullable=True),
        sa.Column("last_at", Instant(), nullable=True),
        sa.Column("last_task_id", Id, nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("deleted_at", Instant(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("(cron IS NULL) <> (interval_seconds IS NULL)", name="ck_schedules_cron_or_interval"),
        sa.ForeignKeyConstraint(["job_num"], ["jobs.num"], name="fk_schedules_job_num"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("room", "name", name="uq_schedules_room_name"),
    )
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"], unique=False)
    op.create_table(
        "worker_jobs",
        sa.Column("worker_id", Id, nullable=False),
        sa.Column("job_num", BigKey, nullable=False),
        sa.ForeignKeyConstraint(["job_num"], ["jobs.num"], name="fk_worker_jobs_job_num", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name="fk_worker_jobs_worker_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("worker_id", "job_num", name="pk_worker_jobs"),
    )
    op.create_index("ix_worker_jobs_job_num", "worker_jobs", ["job_num"], unique=False)
    op.create_table(
        "lane_counts",
        sa.Column("lane", BigKey, nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("n", BigKey, nullable=False),
        sa.ForeignKeyConstraint(["lane"], ["lanes.id"], name="fk_lane_counts_lane", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("lane", "status", "priority", name="pk_lane_counts"),
    )
    op.create_table(
        "tasks",
        sa.Column("seq", BigKey, autoincrement=False, nullable=False),
        sa.Column("id", Id, nullable=False),
        sa.Column("job_num", BigKey, nullable=False),
        sa.Column("lane", BigKey, nullable=False),
        sa.Column("job_name", sa.String(length=1024), nullable=False),
        sa.Column("room", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("due_at", Instant(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.Column("payload", Json, nullable=False),
        sa.Column("content_hash", sa.LargeBinary(), nullable=False),
        sa.Column("submitter", sa.String(length=255), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("max_requeues", sa.Integer(), nullable=False),
        sa.Column("retry_base", sa.Double(), nullable=False),
        sa.Column("retry_multiplier", sa.Double(), nullable=False),
        sa.Column("retry_randomization", sa.Double(), nullable=False),
        sa.Column("lease_seconds", sa.Double(), nullable=False),
        sa.Column("start_timeout", sa.Double(), nullable=False),
        sa.Column("heartbeat_increment", sa.Double(), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("timeout", sa.Double(), nullable=True),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("on_failure", sa.String(length=8), nullable=False),
        sa.Column("blocked", sa.Boolean(), nullable=False),
        sa.Column("target_num", BigKey, nullable=True),
        sa.Column("target", sa.String(length=255), nullable=True),
        sa.Column("deadline", Instant(), nullable=True),
        sa.Column("pool", sa.String(length=255), nullable=True),
        sa.Column("tags", Json, nullable=True),
        sa.Column("scopes", Json, nullable=True),
        sa.Column("unique_key", sa.String(length=255), nullable=True),
        sa.Column("limit_key", sa.String(length=255), nullable=True),
        sa.Column("budget", sa.Double(), nullable=True),
        sa.Column("schedule_id", Id, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("worker_id", Id, nullable=True),
        sa.Column("taken_until", Instant(), nullable=True),
        sa.Column("unfenced", sa.Boolean(), nullable=False),
        sa.Column("claimed_at", Instant(), nullable=True),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("completed_at", Instant(), nullable=True),
        sa.Column("next_retry_at", Instant(), nullable=True),
        sa.Column("retry_count", sa.Integer(), nullable=False),
        sa.Column("requeue_count", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.Column("usage", sa.Double(), nullable=True),
        sa.Column("result", Json, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("checkpoint", Json, nullable=True),
        sa.Column("progress", Json, nullable=True),
        sa.CheckConstraint(
            "(status IN ('claimed', 'running')) = (taken_until IS NOT NULL)", name="ck_tasks_leased_has_taken_until"
        ),
        sa.CheckConstraint(
            "(status = 'completed' OR status = 'failed' OR status = 'cancelled') = (completed_at IS NOT NULL)",
            name="ck_tasks_terminal_has_completed_at",
        ),
        sa.CheckConstraint("on_failure IN ('hold', 'release')", name="ck_tasks_on_failure_known"),
        sa.CheckConstraint(
            "reason IS NULL OR reason IN ('budget-exceeded', 'cancelled', 'claim-expired', 'deadline-exceeded', 'error', 'intermittent-task', 'internal-error', 'interrupted', 'malformed-payload', 'resource-unavailable', 'returned', 'start-timeout', 'timeout', 'worker-shutdown')",
            name="ck_tasks_reason_known",
        ),
        sa.CheckConstraint(
            "(status = 'scheduled' OR status = 'pending' OR status = 'claimed' OR status = 'running' OR status = 'paused' OR status = 'completed' OR status = 'failed' OR status = 'cancelled')",
            name="ck_tasks_status_known",
        ),
        sa.CheckConstraint(
            "status NOT IN ('claimed', 'running') OR (run_id >= 0 AND worker_id IS NOT NULL)",
            name="ck_tasks_leased_has_run_and_worker",
        ),
        sa.CheckConstraint("weight >= 1", name="ck_tasks_weight_positive"),
        sa.ForeignKeyConstraint(["job_num"], ["jobs.num"], name="fk_tasks_job_num"),
        sa.ForeignKeyConstraint(["lane"], ["lanes.id"], name="fk_tasks_lane"),
        sa.ForeignKeyConstraint(["target_num"], ["targets.num"], name="fk_tasks_target_num"),
        sa.PrimaryKeyConstraint("seq", name="pk_tasks"),
        sa.UniqueConstraint("id", name="uq_tasks_id"),
    )
    op.create_index(
        "ix_tasks_deadline",
        "tasks",
        ["deadline"],
        unique=False,
        sqlite_where=sa.text("deadline IS NOT NULL AND completed_at IS NULL"),
        postgresql_where=sa.text("deadline IS NOT NULL AND completed_at IS NULL"),
    )
    op.create_index(
        "ix_tasks_due",
        "tasks",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("status = 'scheduled'"),
        postgresql_where=sa.text("status = 'scheduled'"),
    )
    op.create_index(
        "ix_tasks_held",
        "tasks",
        ["job_num", "status", "seq"],
        unique=False,
        sqlite_where=sa.text(
            "(status = 'failed' OR status = 'paused' OR status = 'cancelled' OR status = 'scheduled')"
        ),
        postgresql_where=sa.text(
            "(status = 'failed' OR status = 'paused' OR status = 'cancelled' OR status = 'scheduled')"
        ),
    )
    op.create_index("ix_tasks_job", "tasks", ["job_num", "seq"], unique=False)
    op.create_index(
        "ix_tasks_lease",
        "tasks",
        ["taken_until"],
        unique=False,
        sqlite_where=sa.text("status IN ('claimed', 'running')"),
        postgresql_where=sa.text("status IN ('claimed', 'running')"),
    )
    op.create_index(
        "ix_tasks_queue",
        "tasks",
        ["lane", "blocked", sa.literal_column("priority DESC"), "due_at", "seq"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index("ix_tasks_room", "tasks", ["room", "seq"], unique=False)
    op.create_index(
        "ix_tasks_target_again",
        "tasks",
        ["target_num"],
        unique=False,
        sqlite_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND run_id >= 0"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND run_id >= 0"),
    )
    op.create_index(
        "ix_tasks_target_held",
        "tasks",
        ["target_num"],
        unique=False,
        sqlite_where=sa.text(
            "target_num IS NOT NULL AND NOT settled AND (status = 'claimed' OR status = 'running' OR status = 'paused' OR status = 'scheduled' OR status = 'failed')"
        ),
        postgresql_where=sa.text(
            "target_num IS NOT NULL AND NOT settled AND (status = 'claimed' OR status = 'running' OR status = 'paused' OR status = 'scheduled' OR status = 'failed')"
        ),
    )
    op.create_index(
        "ix_tasks_target_open",
        "tasks",
        ["target_num"],
        unique=False,
        sqlite_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND NOT blocked"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND NOT blocked"),
    )
    op.create_index(
        "ix_tasks_target_queue",
        "tasks",
        ["target_num", sa.literal_column("priority DESC"), "due_at", "seq"],
        unique=False,
        sqlite_where=sa.text("target_num IS NOT NULL AND status = 'pending'"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status = 'pending'"),
    )
    op.create_index(
        "ix_tasks_worker",
        "tasks",
        ["worker_id"],
        unique=False,
        sqlite_where=sa.text("status IN ('claimed', 'running')"),
        postgresql_where=sa.text("status IN ('claimed', 'running')"),
    )
    op.create_index(
        "uq_tasks_live_target",
        "tasks",
        ["target_num"],
        unique=True,
        sqlite_where=sa.text("target_num IS NOT NULL AND status IN ('claimed', 'running')"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status IN ('claimed', 'running')"),
    )
    op.create_index(
        "uq_tasks_unique_key",
        "tasks",
        ["job_num", "unique_key"],
        unique=True,
        sqlite_where=sa.text("unique_key IS NOT NULL AND completed_at IS NULL"),
        postgresql_where=sa.text("unique_key IS NOT NULL AND completed_at IS NULL"),
    )
    op.create_table(
        "artifacts",
        sa.Column("id", Id, nullable=False),
        sa.Column("task_seq", BigKey, nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=1024), nullable=False),
        sa.Column("content_type", sa.String(length=255), nullable=False),
        sa.Column("size", BigKey, nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=True),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=True),
        sa.CheckConstraint("state IN ('uploading', 'stored')", name="ck_artifacts_state_known"),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name="fk_artifacts_task_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_artifacts"),
        sa.UniqueConstraint("task_seq", "run_id", "name", name="uq_artifacts_task_seq_run_id_name"),
    )
    op.create_table(
        "holds",
        sa.Column("task_seq", BigKey, nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("worker_id", Id, nullable=False),
        sa.Column("target_num", BigKey, nullable=True),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("until", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["target_num"], ["targets.num"], name="fk_holds_target_num"),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name="fk_holds_task_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_seq", "run_id", name="pk_holds"),
    )
    op.create_index("ix_holds_until", "holds", ["until"], unique=False)
    op.create_index("ix_holds_worker_id", "holds", ["worker_id"], unique=False)
    op.create_index(
        "uq_holds_target",
        "holds",
        ["target_num"],
        unique=True,
        sqlite_where=sa.text("target_num IS NOT NULL"),
        postgresql_where=sa.text("target_num IS NOT NULL"),
    )
    op.create_table(
        "runs",
        sa.Column("task_seq", BigKey, nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("worker_id", Id, nullable=True),
        sa.Column("usage", sa.Double(), nullable=True),
        sa.Column("claimed_at", Instant(), nullable=False),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "(status = 'completed' OR status = 'failed' OR status = 'exception' OR status = 'paused' OR status = 'cancelled' OR status = 'returned')",
            name="ck_runs_status_known",
        ),
        sa.CheckConstraint("run_id >= 0", name="ck_runs_run_id_from_zero"),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name="fk_runs_task_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_seq", "run_id", name="pk_runs"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "task_dependencies",
        sa.Column("task_seq", BigKey, nullable=False),
        sa.Column("needs_seq", BigKey, nullable=False),
        sa.ForeignKeyConstraint(
            ["needs_seq"], ["tasks.seq"], name="fk_task_dependencies_needs_seq", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name="fk_task_dependencies_task_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_seq", "needs_seq", name="pk_task_dependencies"),
    )
    op.create_index("ix_task_dependencies_needs_seq", "task_dependencies", ["needs_seq"], unique=False)
    op.create_table(
        "task_logs",
        sa.Column("task_seq", BigKey, nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("line", BigKey, nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("level", sa.String(length=16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["task_seq"], ["tasks.seq"], name="fk_task_logs_task_seq", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_seq", "run_id", "line", name="pk_task_logs"),
    )
    for view, dialect in VIEWS:
        if op.get_bind().dialect.name == dialect:
            op.execute(view)


def downgrade() -> None:
    op.execute("DROP VIEW treadle_tasks")
    op.drop_table("task_logs")
    op.drop_index("ix_task_dependencies_needs_seq", table_name="task_dependencies")
    op.drop_table("task_dependencies")
    op.drop_table("runs")
    op.drop_index(
        "uq_holds_target",
        table_name="holds",
        sqlite_where=sa.text("target_num IS NOT NULL"),
        postgresql_where=sa.text("target_num IS NOT NULL"),
    )
    op.drop_index("ix_holds_worker_id", table_name="holds")
    op.drop_index("ix_holds_until", table_name="holds")
    op.drop_table("holds")
    op.drop_table("artifacts")
    op.drop_index(
        "uq_tasks_unique_key",
        table_name="tasks",
        sqlite_where=sa.text("unique_key IS NOT NULL AND completed_at IS NULL"),
        postgresql_where=sa.text("unique_key IS NOT NULL AND completed_at IS NULL"),
    )
    op.drop_index(
        "uq_tasks_live_target",
        table_name="tasks",
        sqlite_where=sa.text("target_num IS NOT NULL AND status IN ('claimed', 'running')"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status IN ('claimed', 'running')"),
    )
    op.drop_index(
        "ix_tasks_worker",
        table_name="tasks",
        sqlite_where=sa.text("status IN ('claimed', 'running')"),
        postgresql_where=sa.text("status IN ('claimed', 'running')"),
    )
    op.drop_index(
        "ix_tasks_target_queue",
        table_name="tasks",
        sqlite_where=sa.text("target_num IS NOT NULL AND status = 'pending'"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status = 'pending'"),
    )
    op.drop_index(
        "ix_tasks_target_open",
        table_name="tasks",
        sqlite_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND NOT blocked"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND NOT blocked"),
    )
    op.drop_index(
        "ix_tasks_target_held",
        table_name="tasks",
        sqlite_where=sa.text(
            "target_num IS NOT NULL AND NOT settled AND (status = 'claimed' OR status = 'running' OR status = 'paused' OR status = 'scheduled' OR status = 'failed')"
        ),
        postgresql_where=sa.text(
            "target_num IS NOT NULL AND NOT settled AND (status = 'claimed' OR status = 'running' OR status = 'paused' OR status = 'scheduled' OR status = 'failed')"
        ),
    )
    op.drop_index(
        "ix_tasks_target_again",
        table_name="tasks",
        sqlite_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND run_id >= 0"),
        postgresql_where=sa.text("target_num IS NOT NULL AND status = 'pending' AND run_id >= 0"),
    )
    op.drop_index("ix_tasks_room", table_name="tasks")
    op.drop_index(
        "ix_tasks_queue",
        table_name="tasks",
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.drop_index(
        "ix_tasks_lease",
        table_name="tasks",
        sqlite_where=sa.text("status IN ('claimed', 'running')"),
        postgresql_where=sa.text("status IN ('claimed', 'running')"),
    )
    op.drop_index("ix_tasks_job", table_name="tasks")
    op.drop_index(
        "ix_tasks_held",
        table_name="tasks",
        sqlite_where=sa.text(
            "(status = 'failed' OR status = 'paused' OR status = 'cancelled' OR status = 'scheduled')"
        ),
        postgresql_where=sa.text(
            "(status = 'failed' OR status = 'paused' OR status = 'cancelled' OR status = 'scheduled')"
        ),
    )
    op.drop_index(
        "ix_tasks_due",
        table_name="tasks",
        sqlite_where=sa.text("status = 'scheduled'"),
        postgresql_where=sa.text("status = 'scheduled'"),
    )
    op.drop_index(
        "ix_tasks_deadline",
        table_name="tasks",
        sqlite_where=sa.text("deadline IS NOT NULL AND completed_at IS NULL"),
        postgresql_where=sa.text("deadline IS NOT NULL AND completed_at IS NULL"),
    )
    op.drop_table("tasks")
    op.drop_table("lane_counts")
    op.drop_index("ix_worker_jobs_job_num", table_name="worker_jobs")
    op.drop_table("worker_jobs")
    op.drop_index("ix_schedules_next_at", table_name="schedules")
    op.drop_table("schedules")
    op.drop_table("lanes")
    op.drop_table("job_schemas")
    op.drop_table("workers")
    op.drop_table("tokens")
    op.drop_table("targets")
    op.drop_table("meta")
    op.drop_table("limits")
    op.drop_table("jobs")
    op.drop_table("count_deltas")
    if op.get_bind().dialect.name == "postgresql":
        for name in SEQUENCES:
            op.execute(sa.schema.DropSequence(sa.Sequence(name)))


_SQLITE_VIEW = """
CREATE VIEW treadle_tasks AS
SELECT id, job_name AS job, room, status, priority, payload, result, error, reason, run_id AS run, retry_count AS retries,
       requeue_count AS requeues, worker_id, target, tags, submitter,
       {}
FROM tasks
"""

_TIMES = (
    "due_at",
    "created_at",
    "claimed_at",
    "started_at",
    "completed_at",
    "taken_until",
    "next_retry_at",
    "deadline",
)

VIEWS = (
    (
        _SQLITE_VIEW.format(
            ", ".join(f"strftime('%Y-%m-%dT%H:%M:%fZ', {name} / 1e6, 'unixepoch') AS {name}" for name in _TIMES)
        ),
        "sqlite",
    ),
    (_SQLITE_VIEW.format(", ".join(_TIMES)), "postgresql"),
)
