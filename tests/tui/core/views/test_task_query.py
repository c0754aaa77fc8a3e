"""The window that the task list asks for, wherever one goes in it (behaviour 2)."""

from datetime import UTC, datetime, timedelta

from treadle.wire.frames import Window
from treadle_tui.core.views.task_query import TaskQuery
from treadle_tui.core.views.windows import WINDOW, Part, anchored


def key_of(index: int) -> str:
    return f"00000000-0000-7000-8000-{index:012x}"


def loaded(first: int, count: int, index: int) -> str | None:
    return key_of(index) if first <= index < first + count else None


def test_2_a_jump_is_counted_from_the_head_once_and_then_hangs_on_its_first_row() -> None:
    query = TaskQuery()
    query.select("@global:tasks:a")
    assert query.look(90_000, 30, 100_000, lambda _: None)
    jumped = query.want()
    assert jumped is not None
    assert jumped.window is not None
    offset = jumped.window.offset

    assert query.arrived(offset, key_of(offset))

    settled = query.want()
    assert settled is not None
    assert settled.window is not None
    assert (settled.window.first, settled.window.offset) == (key_of(offset), 0)
    assert not query.arrived(offset, key_of(offset))
    assert not query.look(90_000, 30, 100_000, lambda _: None)


def test_9_what_was_less_than_an_hour_ago_moves_on_with_the_time_and_the_window_stands() -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    query = TaskQuery(text="job:* ended:<1h", now=lambda: now)
    query.arrived(7, key_of(7))
    query.look(0, 30, 9, key_of)
    before = query.want()
    assert not query.reevaluate()

    now += timedelta(seconds=10)

    assert query.reevaluate()
    after = query.want()
    assert before is not None
    assert after is not None
    assert before.window is not None
    assert after.window == before.window.model_copy(update={"filter": after.window.filter})
    assert after.window.filter.ended_from == now - timedelta(hours=1)
    query.narrow("ended:2026-01-01")
    now += timedelta(hours=1)
    assert not query.reevaluate()


def test_2_back_at_the_head_the_window_hangs_on_nothing_for_new_tasks_come_there() -> None:
    window = anchored(Part(0, WINDOW), Window(first=key_of(50)), lambda index: loaded(50, 200, index))

    assert (window.first, window.before, window.offset) == (None, None, 0)
