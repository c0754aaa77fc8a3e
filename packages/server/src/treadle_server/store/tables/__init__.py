"""The tables, with the invariants that the database itself enforces; one module for each subject."""

from treadle_server.store.tables.base import metadata, status_in
from treadle_server.store.tables.of_access import signing_keys, tokens
from treadle_server.store.tables.of_artifacts import artifacts
from treadle_server.store.tables.of_jobs import count_deltas, job_schemas, jobs, lane_counts, lanes, past_outcomes
from treadle_server.store.tables.of_limits import limit_lines, limit_tokens, limit_uses, limits
from treadle_server.store.tables.of_schedules import schedule_ticks, schedules
from treadle_server.store.tables.of_servers import SEQUENCES, meta, servers
from treadle_server.store.tables.of_steps import task_messages, task_steps
from treadle_server.store.tables.of_tasks import (
    HOLDING,
    IN_LINE,
    SEVERAL_LIMITS,
    TO_TELL,
    failures,
    flows,
    holds,
    runs,
    targets,
    task_dependencies,
    task_logs,
    task_specs,
    task_tags,
    tasks,
)
from treadle_server.store.tables.of_webhooks import webhook_deliveries, webhooks
from treadle_server.store.tables.of_workers import claim_keys, worker_jobs, workers

__all__ = [
    "HOLDING",
    "IN_LINE",
    "SEQUENCES",
    "SEVERAL_LIMITS",
    "TO_TELL",
    "artifacts",
    "claim_keys",
    "count_deltas",
    "failures",
    "flows",
    "holds",
    "job_schemas",
    "jobs",
    "lane_counts",
    "lanes",
    "limit_lines",
    "limit_tokens",
    "limit_uses",
    "limits",
    "meta",
    "metadata",
    "past_outcomes",
    "runs",
    "schedule_ticks",
    "schedules",
    "servers",
    "signing_keys",
    "status_in",
    "targets",
    "task_dependencies",
    "task_logs",
    "task_messages",
    "task_specs",
    "task_steps",
    "task_tags",
    "tasks",
    "tokens",
    "webhook_deliveries",
    "webhooks",
    "worker_jobs",
    "workers",
]
