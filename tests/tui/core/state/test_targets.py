"""Which targets a filter means."""

import pytest

from tests.tui.happenings import holder, target
from tests.tui.scene import RDF, uuid
from treadle import filters
from treadle.wire.targets import TargetItem
from treadle_tui.core.state.targets import means

HELD = target(1, "cam-1", holder(7, "paused", since=9, job_name=RDF, worker_id=uuid(20_001)), waiting=2)


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
    [
        ("", True),
        ("target:cam-1", True),
        ("target:cam", False),
        ("cam", True),
        ("room:room_42 status:paused", True),
        ("status:running", False),
        (f"job:{RDF}", True),
        (f"id:{uuid(7)[:12]}", True),
        (f"worker:{uuid(20_001)}", True),
        (f"worker:{uuid(20_002)}", False),
        ("tag:order", False),
        ("zebra", False),
    ],
)
def test_9_a_filter_means_a_target_by_its_name_or_its_holder(wanted: str, is_meant: bool) -> None:
    assert means(filters.parse(wanted), TargetItem.model_validate(HELD)) is is_meant
