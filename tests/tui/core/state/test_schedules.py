"""Which schedules a filter means, and what is said of a late one."""

from datetime import timedelta

import pytest

from tests.tui.happenings import schedule
from tests.tui.scene import BILLING, RDF, uuid
from treadle import filters
from treadle.wire.schedules import ScheduleItem
from treadle_tui.core.state.schedules import ScheduleRow, late_words, means


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
    [
        ("", True),
        ("rd", True),
        ("room:room_42 status:completed", True),
        ("status:failed", False),
        (f"job:{RDF}", True),
        (f"job:{BILLING}", False),
        ("target:cam-1", True),
        ("target:cam-2", False),
        ("tag:who=mia", True),
        ("tag:who=max", False),
        (f"id:{uuid(102)[:20]}", True),
        (f"worker:{uuid(1)}", False),
    ],
)
def test_9_a_filter_means_a_schedule_by_what_it_is_or_its_last_task(wanted: str, is_meant: bool) -> None:
    item = schedule(
        2, "rdf", due=20, status="completed", job_name=RDF, options={"target": "cam-1", "tags": {"who": "mia"}}
    )

    assert means(filters.parse(wanted), ScheduleItem.model_validate(item)) is is_meant


WITHOUT_TOKEN = "'mia' has no valid token: it goes on when a token is made for them"


@pytest.mark.parametrize(
    ("status", "stands_still", "why"),
    [
        ("completed", None, "no task was submitted"),
        ("completed", WITHOUT_TOKEN, WITHOUT_TOKEN),
        ("paused", WITHOUT_TOKEN, "its last task is paused"),
    ],
)
def test_of_a_late_schedule_it_is_said_what_it_waits_for(status: str, stands_still: str | None, why: str) -> None:
    item = ScheduleItem.model_validate(schedule(1, "stuck", due=0, status=status, stands_still=stands_still))
    assert item.next_at is not None

    assert late_words(ScheduleRow(item), item.next_at + timedelta(seconds=130)) == f"due 2m10 ago, {why}"
