"""Columns are as wide as what stands in them; those in which nothing does are folded away."""

from datetime import timedelta
from typing import Any

from tests.tui.mock import NOON
from tests.tui.scene import task
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.columns import CellContext
from treadle_tui.core.draw.format import task_state
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import plain
from treadle_tui.core.views.pane import Pane
from treadle_tui.core.views.task_columns import columns

FOLDED = ("POS", "ENDED", "RUN", "WORKER", "TARGET", "PROGRESS", "TAGS")
ROOM = 200


def pane(*, ended: bool = False) -> Pane[TaskItem]:
    return Pane(columns(several_jobs=False, ended=ended), lambda: CellContext(now=NOON, glyphs=UNICODE))


def show(pane: Pane[TaskItem], *rows: TaskItem) -> bool:
    """Put the rows on the screen; return whether that changes a column."""
    pane.rows.update([row.id for row in rows], {row.id: row for row in rows})
    return pane.measure(0, len(rows))


def titles(pane: Pane[TaskItem]) -> list[str]:
    return plain(pane.head(ROOM)).split()


def row(number: int, **more: Any) -> TaskItem:
    return TaskItem.model_validate(task(number, **more))


def test_columns_that_are_empty_in_the_window_are_folded_away() -> None:
    shown = pane()
    show(shown, row(1), row(2))

    assert not [title for title in FOLDED if title in titles(shown)]


def test_a_column_comes_with_the_first_row_that_has_something_in_it_and_stays() -> None:
    shown = pane()
    show(shown, row(1))

    assert show(shown, row(1), row(2, target="cam-1"))
    assert "TARGET" in titles(shown)
    assert not show(shown, row(1))
    assert "TARGET" in titles(shown)

    shown.fold()
    show(shown, row(1))
    assert "TARGET" not in titles(shown)


def test_a_column_grows_with_what_stands_in_it_and_not_narrower_again_before_another_list_begins() -> None:
    shown = pane()
    show(shown, row(1, queue_position=7))
    narrow = plain(shown.head(ROOM)).index("ID")

    show(shown, row(1, queue_position=7), row(2, queue_position=104_233))
    wide = plain(shown.head(ROOM)).index("ID")
    show(shown, row(1, queue_position=7))

    assert wide == narrow + len("104,233") - len("POS")
    assert plain(shown.head(ROOM)).index("ID") == wide
    shown.fold()
    show(shown, row(1, queue_position=7))
    assert plain(shown.head(ROOM)).index("ID") == narrow


def test_lines_that_nobody_sees_widen_nothing() -> None:
    shown = pane()
    rows = [row(1), row(2, target="a-target-with-a-long-name")]
    shown.rows.update([one.id for one in rows], {one.id: one for one in rows})

    assert shown.measure(0, 1)
    assert "TARGET" not in titles(shown)
    assert shown.measure(1, 1)
    assert "TARGET" in titles(shown)


def test_ended_tasks_tell_when_they_ended_how_long_they_ran_and_where_instead_of_places_in_a_queue() -> None:
    shown = pane(ended=True)
    done = row(
        1, status="completed", age=300, started_at=NOON.replace(hour=11, minute=58), worker_id="web-3",
        completed_at=NOON.replace(hour=11, minute=59), run_id=0,
    )  # fmt: skip
    show(shown, done)

    assert titles(shown) == ["ID", "STATE", "TRY", "ENDED", "RUN", "WORKER", "PAYLOAD"]
    assert plain(shown.line(0, ROOM)).split()[3:8] == ["completed", "1/4", "1m00", "1m00", "web-3"]


def test_how_long_an_ended_task_ran_is_told_as_exactly_as_it_matters() -> None:
    shown = pane(ended=True)
    begun = NOON - timedelta(minutes=1)
    rows = [
        row(number, status="completed", started_at=begun, completed_at=begun + timedelta(seconds=seconds), run_id=0)
        for number, seconds in enumerate((0.34, 1.999, 48.7))
    ]
    show(shown, *rows)

    end = plain(shown.head(ROOM)).index("RUN") + len("RUN")
    assert [plain(shown.line(place, ROOM))[:end].split()[-1] for place in range(3)] == ["340ms", "2.0s", "48s"]


def test_a_row_that_left_stands_beneath_the_same_titles_as_it_did() -> None:
    shown = Pane(
        columns(several_jobs=False),
        lambda: CellContext(now=NOON, glyphs=UNICODE),
        fate=lambda task, context: (task_state(task, context.now, context.glyphs),),
    )
    show(shown, row(1), row(2))
    shown.rows.pin()
    state = plain(shown.line(0, ROOM)).index("○ pending")
    show(shown, row(2))

    assert plain(shown.line(0, ROOM)).index("○ pending") == state


def test_in_a_mixed_list_each_row_tells_what_is_true_of_it() -> None:
    shown = pane()
    waits = row(1, queue_position=3)
    ended = row(2, status="failed", completed_at=NOON, started_at=NOON, worker_id="web-3", run_id=0)
    show(shown, waits, ended)

    assert titles(shown) == ["POS", "ID", "STATE", "TRY", "AGE", "ETA", "ENDED", "RUN", "WORKER", "PAYLOAD"]
    assert plain(shown.line(0, ROOM)).split()[6:11] == ["48s", "-", "-", "-", "-"]
    assert plain(shown.line(1, ROOM)).split()[5:10] == ["48s", "-", "0s", "0ms", "web-3"]
