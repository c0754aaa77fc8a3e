"""The lines over a task: where it stands, and its trace as a link where the configuration says to what."""

import pytest

from tests.tui.mock import NOON
from tests.tui.scene import at, task
from treadle.wire.fields import TEN_YEARS
from treadle_tui.core.draw.columns import CellContext
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import fit
from treadle_tui.core.state.detail import TaskDetail
from treadle_tui.core.views.task_columns import tries
from treadle_tui.core.views.task_header import header

URL = "https://traces.example/trace/{trace_id}"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def links(trace_id: str | None, url: str | None) -> set[str]:
    row = task(1, trace_id=trace_id, priority=7)
    detail = TaskDetail.model_validate({"id": row["id"], "task": row})
    lines = header(detail, CellContext(now=NOON, glyphs=UNICODE), trace_url=url)
    return {span.link for line in lines for span in fit(line, 100)} - {""}


def test_a_trace_is_a_link_where_the_configuration_says_to_what() -> None:
    assert links(TRACE, URL) == {f"https://traces.example/trace/{TRACE}"}
    assert links(TRACE, None) == set()
    assert links(None, URL) == set()


@pytest.mark.parametrize("hostile", ["../../admin", "a\x1b\\b", "4bf92f35 77", ""])
def test_what_is_no_trace_is_part_of_no_address(hostile: str) -> None:
    assert links(hostile, URL) == set()


def standing(**more: object) -> str:
    row = task(1, **more)  # type: ignore[arg-type]
    detail = TaskDetail.model_validate({"id": row["id"], "task": row})
    spans = header(detail, CellContext(now=NOON, glyphs=UNICODE))[1]
    return "".join(span.text for span in spans)


def test_what_is_due_later_says_when_and_a_retry_says_it_by_its_state() -> None:
    asleep = {"status": "scheduled", "reason": "suspended", "run_id": 0, "scheduled_at": at(-3600)}

    assert "asleep   try 0/4" in standing(**asleep)
    assert "due in 1h00" in standing(**asleep)
    # Without a timeout a message is waited for ten years.
    assert "due in" not in standing(**asleep | {"scheduled_at": at(-TEN_YEARS)})
    assert "due in" not in standing(status="scheduled", next_retry_at=at(-9), scheduled_at=at(-9))
    assert "due in" not in standing(status="running", run_id=0, scheduled_at=at(60))


def test_its_tries_are_those_of_the_list() -> None:
    retrying = task(1, status="scheduled", next_retry_at=at(-9), run_id=1, retry_count=2)

    said = tries(TaskDetail.model_validate({"id": retrying["id"], "task": retrying}).task)

    assert said == "2/4"
    assert f"try {said}" in standing(status="scheduled", next_retry_at=at(-9), run_id=1, retry_count=2)
