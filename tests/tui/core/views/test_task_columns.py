"""What the columns of the task list say of a task."""

from typing import Any

import pytest

from tests.tui.mock import NOON
from tests.tui.scene import at, task
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.columns import CellContext
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.views.task_columns import COLUMNS


@pytest.mark.parametrize(
    ("status", "more", "told"),
    [
        ("running", {}, "40s"),
        ("completed", {"completed_at": at(10)}, "30s"),
        # How long the run was that a pause ended, no row says; it grew for as long as the task was paused.
        ("paused", {}, "-"),
        ("pending", {}, "-"),
    ],
)
def test_how_long_a_task_ran_is_told_of_what_runs_and_of_what_has_ended(
    status: str, more: dict[str, Any], told: str
) -> None:
    column = next(column for column in COLUMNS if column.title == "RUN")
    row = TaskItem.model_validate(task(1, status=status, started_at=at(40), **more))

    cell = column.cell(row, CellContext(now=NOON, glyphs=UNICODE))

    assert "".join(span.text for span in cell) == told
    assert column.fills is not None
    assert column.fills(row) is (told != "-")
