"""The lines over a task: its trace is a link where the configuration says to what."""

import pytest

from tests.tui.mock import NOON
from tests.tui.scene import task
from treadle_tui.core.draw.columns import CellContext
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import fit
from treadle_tui.core.state.detail import TaskDetail
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
