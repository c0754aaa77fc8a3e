"""Any size of the terminal: every screen is drawn at it, and fills it."""

import asyncio

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import DescendantFocus

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scenes import SCENES
from tests.tui.stage import settle, staged
from tests.waiting import until
from treadle_tui.core.verbs.plan import Report
from treadle_tui.screens.base import BaseScreen
from treadle_tui.widgets.grid import QueueGrid, TaskGrid

SIZES = st.tuples(st.integers(60, 300), st.integers(15, 80))
TINY = st.tuples(st.integers(1, 60), st.integers(1, 15))


EDGES = [(300, 80), (59, 14), (1, 1), (60, 15)]


@example(name="main", first=(60, 15), others=EDGES)
@example(name="detail", first=(300, 80), others=EDGES)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(SCENES)),
    first=SIZES,
    others=st.lists(st.one_of(SIZES, SIZES, TINY), min_size=3, max_size=3),
)
@pytest.mark.crossed
def test_8_whatever_screen_and_size_resizing_never_raises_and_the_screen_is_filled(
    name: str, first: tuple[int, int], others: list[tuple[int, int]]
) -> None:
    asyncio.run(_resize(name, first, others))


async def _resize(name: str, first: tuple[int, int], others: list[tuple[int, int]]) -> None:
    app, play = SCENES[name].dashboard()
    async with app.run_test(size=first) as pilot:
        await play(pilot)
        for width, height in others:
            await pilot.resize_terminal(width, height)
            # Textual tells its screen a moment later.
            await until(lambda size=(width, height): app.screen.size == size)
            await settle(pilot)
            lines = [strip.text for strip in app.screen._compositor.render_strips()]
            assert [cell_len(line) for line in lines] == [width] * height


@pytest.mark.parametrize("screen", ["2", "3"])
async def test_8_after_a_size_that_was_too_small_the_keys_work_where_they_did(
    screen: str, server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press(screen, "g")
        begun = stage.highlighted()
        for size in ((50, 10), (120, 36)):
            await stage.pilot.resize_terminal(*size)
            await stage.settle()

        assert "? help" in stage.lines()[-1]
        assert "copy" in stage.lines()[-1]
        await stage.press("down")
        assert stage.highlighted() != begun


async def test_8_after_a_size_that_was_too_small_a_pane_that_was_passed_on_the_way_has_no_keys(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        # On a busy machine the first of two panes that had the focus says so after the second.
        stage.app.screen.post_message(DescendantFocus(stage.app.screen.query_one(QueueGrid)))
        await stage.settle()
        for size in ((50, 10), (120, 36)):
            await stage.pilot.resize_terminal(*size)
            await stage.settle()

        assert isinstance(stage.app.focused, TaskGrid)


@pytest.mark.parametrize("size", [(59, 30), (120, 14)])
async def test_8_at_a_size_that_shows_no_task_no_key_changes_one(
    size: tuple[int, int], server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.pilot.resize_terminal(*size)
        await until(lambda: stage.app.screen.size == size)
        await stage.settle()
        await stage.press("2", "p")
        await stage.pilot.resize_terminal(120, 36)
        await until(lambda: stage.app.screen.size == (120, 36))
        await stage.settle()

        assert "nothing was done: the window is too small to show what a key acts on" in stage.text()
        assert stage.asked("actions") == []


@pytest.mark.parametrize("height", [15, 16, 18, 24])
async def test_8_on_a_low_screen_a_notice_of_two_lines_leaves_the_highlighted_task_its_line(
    height: int, server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, size=(60, height), production=True) as stage:
        await stage.press("2")
        begun = stage.highlighted()
        assert isinstance(stage.app.screen, BaseScreen)
        stage.app.screen.tell(Report("could not pause: " + "what the server says " * 4, ok=False))
        await stage.settle()

        assert "could not pause" in stage.text().partition(begun)[2]


async def test_8_after_sizes_that_were_too_small_for_a_dialog_s_screen_the_keys_work_where_they_did(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, size=(80, 24)) as stage:
        await stage.press("2", "c")
        for size in ((40, 10), (60, 15), (30, 8)):
            await stage.pilot.resize_terminal(*size)
            await stage.settle()
        await stage.press("escape")
        await stage.pilot.resize_terminal(80, 24)
        await stage.settle()

        assert "space mark" in stage.lines()[-1]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("main", (" treadle  ● live  1,204 pending  48/74 run  ! 4",)),
        ("detail", (" Checkpoint [Logs 18] Events", "   try 2/4    ", "   by mia    ")),
        ("failures", ("─ 7 Failures  2 groups, 3 tasks failed ─", "─ enter shows the tasks ─")),
        ("attention", ("! look  queue",)),
        ("production", (" PRODUCTION  queue.example    ",)),
        ("lost", (" Trying again.    ",)),
        ("empty", ("worker of your │", "│   own:")),
    ],
)
async def test_8_on_a_small_screen_what_has_no_room_is_left_out_whole(name: str, lines: tuple[str, ...]) -> None:
    app, play = SCENES[name].dashboard()
    async with app.run_test(size=(60, 20)) as pilot:
        await play(pilot)
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())

    assert [line for line in lines if line not in text] == []
