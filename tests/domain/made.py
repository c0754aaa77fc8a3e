"""Tasks that tests make, with what is said of each and what is said of none."""

from datetime import UTC, datetime
from typing import Any

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task

START = datetime(2026, 1, 1, tzinfo=UTC)

PLAIN: dict[str, Any] = {
    "payload": "{}",
    "content_hash": b"",
    "submitter": "admin",
    "retry_base": 5.0,
    "retry_multiplier": 2.0,
    "retry_randomization": 0.0,
    "lease_seconds": 60.0,
    "start_timeout": 60.0,
    "heartbeat_increment": 60.0,
    "schema_version": 1,
}
"""What a task has that nobody says anything of."""


def new_task(**changes: Any) -> Task:
    """Return a pending task that nothing was said of but `changes`."""
    values: dict[str, Any] = {
        **PLAIN,
        "seq": 1,
        "id": TaskId("00000000-0000-7000-8000-000000000000"),
        "job_num": 1,
        "lane": 1,
        "job_name": "@global:tasks:noop",
        "room": "@global",
        "status": Status.PENDING,
        "priority": 0,
        "due_at": START,
        "created_at": START,
        "updated_at": START,
        "max_retries": 2,
        "max_requeues": 2,
    }
    return Task(**(values | changes))
