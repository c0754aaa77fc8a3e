"""Columns in which nothing stands are folded away, and what they leave goes to the payload."""

from typing import Any

from tests.tui.mock import NOON
from tests.tui.scene import task
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.columns import CellContext
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import plain
from treadle_tui.core.views.pane import Pane
from treadle_tui.core.views.task_columns import COLUMNS

FOLDED = ("WORKER", "TARGET", "PROGRESS", "TAGS")


def pane() -> Pane[TaskItem]:
    return Pane(COLUMNS, lambda: CellContext(now=NOON, glyphs=UNICODE))


def row(number: int, **more: Any) -> TaskItem:
    return TaskItem.model_validate(task(number, **more))


def test_columns_that_are_empty_in_the_window_are_folded_away() -> None:
    shown = pane()
    shown.fill([row(1), row(2)])

    assert not [title for title in FOLDED if title in plain(shown.head(200))]


def test_a_column_comes_with_the_first_row_that_has_something_in_it_and_stays() -> None:
    shown = pane()
    shown.fill([row(1)])
    before = plain(shown.head(200)).index("PAYLOAD")

    shown.fill([row(1), row(2, target="cam-1")])
    assert plain(shown.head(200)).index("PAYLOAD") > before
    shown.fill([row(1)])
    assert "TARGET" in plain(shown.head(200))

    shown.fold()
    assert "TARGET" not in plain(shown.head(200))
