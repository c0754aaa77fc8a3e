"""The window that the task list asks for, wherever one goes in it (behaviour 2)."""

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


def test_2_back_at_the_head_the_window_hangs_on_nothing_for_new_tasks_come_there() -> None:
    window = anchored(Part(0, WINDOW), Window(first=key_of(50)), lambda index: loaded(50, 200, index))

    assert (window.first, window.before, window.offset) == (None, None, 0)
