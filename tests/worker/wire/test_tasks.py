"""When a task is due, as commands and the dashboard tell it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from treadle.wire.fields import TEN_YEARS
from treadle.wire.tasks import TaskItem

NOW = datetime(2026, 11, 28, 9, 0, tzinfo=UTC)


def item(status: str, scheduled_in: float, **more: Any) -> TaskItem:
    at = NOW + timedelta(seconds=scheduled_in)
    return TaskItem(
        id="1", job_name="@global:tasks:nap", room_id="@global", status=status, created_at=NOW, scheduled_at=at, **more
    )  # fmt: skip


def test_what_is_scheduled_is_due_at_its_time_or_at_that_of_its_next_try() -> None:
    assert item("scheduled", 60).due == NOW + timedelta(seconds=60)
    assert item("scheduled", 0, next_retry_at=NOW + timedelta(seconds=5)).due == NOW + timedelta(seconds=5)
    assert item("scheduled", 3600, reason="suspended").due == NOW + timedelta(hours=1)
    assert item("pending", 0).due is None


def test_what_waits_for_a_message_without_an_end_is_not_due() -> None:
    """Commands said that it was to go on in 3650 days."""
    assert item("scheduled", TEN_YEARS + 10, reason="suspended").due is None
    assert item("scheduled", TEN_YEARS + 10).due is not None
