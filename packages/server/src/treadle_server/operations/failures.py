"""Encodes groups of failures as they are shown."""

from typing import Any

from treadle_server.domain.failures import key_text
from treadle_server.store.read.failures import MOST_JOBS, FailureGroup

LONGEST_ERROR = 1_000
"""The most characters of an error that a group shows; the task has all of it."""


def group_data(group: FailureGroup) -> dict[str, Any]:
    """Return the group as `FailureGroup`."""
    return {
        "id": key_text(group.key),
        "kind": group.kind,
        "place": group.place,
        "error": None if group.error is None else group.error[:LONGEST_ERROR],
        "task_id": group.task_id,
        "jobs": [name for name, _ in group.jobs.most_common(MOST_JOBS)],
        "runs": group.runs,
        "first_seen_at": group.first_at,
        "last_seen_at": group.last_at,
        "per_minute": group.minutes,
        "failed": group.failed,
        "retrying": group.retrying,
    }
