"""Whether a worker named its concurrency; views that show attempts, workers' names and resolved runs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TASKS = """
CREATE VIEW treadle_tasks AS
SELECT tasks.id, job_name AS job, room, status, priority, run_id + 1 AS attempts, retry_count AS retries,
       requeue_count AS requeues, payload, result, error, reason, checkpoint, progress, coalesce(workers.name, {worker})
       AS worker, worker_id, target, blocked, weight, tasks.pool, tags, submitter,
       {times}
FROM tasks LEFT JOIN workers ON workers.id = tasks.worker_id
"""
_TASK_TIMES = {
    "due_at": "due_at",
    "created_at": "tasks.created_at",
    "claimed_at": "claimed_at",
    "started_at": "started_at",
    "completed_at": "completed_at",
    "taken_until": "taken_until",
    "next_retry_at": "next_retry_at",
    "deadline": "deadline",
}

_RUNS = """
CREATE VIEW treadle_runs AS
SELECT tasks.id AS task_id, job_name AS job, room, runs.run_id AS run, runs.status, runs.reason, runs.error, traceback,
       coalesce(workers.name, {worker}) AS worker, runs.worker_id, runs.usage, {seconds} AS seconds,
       {times}
FROM runs JOIN tasks ON tasks.seq = runs.task_seq LEFT JOIN workers ON workers.id = runs.worker_id
"""
_RUN_TIMES = {name: f"runs.{name}" for name in ("claimed_at", "started_at", "ended_at")}

_OLD_TASKS = """
CREATE VIEW treadle_tasks AS
SELECT id, job_name AS job, room, status, priority, payload, result, error, reason, run_id AS run, retry_count AS retries,
       requeue_count AS requeues, worker_id, target, tags, submitter,
       {times}
FROM tasks
"""


def _create(view: str, times: dict[str, str]) -> None:
    if op.get_bind().dialect.name == "sqlite":
        # Microseconds since 1970 there, which nobody reads.
        shown = [f"strftime('%Y-%m-%dT%H:%M:%fZ', {at} / 1e6, 'unixepoch') AS {name}" for name, at in times.items()]
        seconds, worker = "(runs.ended_at - runs.started_at) / 1e6", "{table}.worker_id"
    else:
        shown = [f"{at} AS {name}" for name, at in times.items()]
        seconds, worker = "extract(epoch FROM runs.ended_at - runs.started_at)", "CAST({table}.worker_id AS text)"
    worker = worker.format(table="runs" if view is _RUNS else "tasks")
    op.execute(sa.text(view.format(times=", ".join(shown), seconds=seconds, worker=worker).replace(":", r"\:")))


def upgrade() -> None:
    op.add_column("workers", sa.Column("is_limited", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("DROP VIEW treadle_tasks")
    _create(_TASKS, _TASK_TIMES)
    _create(_RUNS, _RUN_TIMES)


def downgrade() -> None:
    op.execute("DROP VIEW treadle_runs")
    op.execute("DROP VIEW treadle_tasks")
    _create(_OLD_TASKS, {**_TASK_TIMES, "created_at": "created_at"})
    op.drop_column("workers", "is_limited")
