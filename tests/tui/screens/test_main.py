"""The task list: it stands still or is followed, its cursor is always in sight, and it draws no more than changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from textual.events import MouseScrollDown, MouseScrollUp

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import job, scene, task
from tests.tui.stage import Stage, slow, staged, typed
from treadle_tui.widgets.grid import Grid, TaskGrid


def many(clock: FrozenClock, count: int) -> MockServer:
    server = scene(clock)
    rows = [task(number, queue_position=number) for number in range(1, count + 1)]
    server.tasks = {row["id"]: row for row in rows}
    return server


def in_front(server: MockServer, *numbers: int) -> None:
    """Let new tasks come before all others."""
    new = [task(number, queue_position=1) for number in numbers]
    server.tasks = {**{row["id"]: row for row in new}, **server.tasks}
    server.push_topic("tasks")


def grid(stage: Stage) -> TaskGrid:
    return stage.app.screen.query_one(TaskGrid)


def frame(stage: Stage) -> tuple[str, str]:
    """The upper and the lower line of the tasks' frame."""
    lines = stage.lines()
    top = next(index for index, line in enumerate(lines) if "2 Tasks" in line)
    return lines[top], next(line for line in lines[top + 1 :] if line.startswith(("└", "`", "+")))


def rows_of(stage: Stage) -> list[str]:
    """The lines inside the grids."""
    return [line[1:-1] for line in stage.lines() if line.startswith("│") and line.count("│") == 2]


@contextmanager
def drawn_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect which lines of grids are rendered."""
    lines: list[str] = []
    render = Grid.render_line

    def counted(self: Grid, y: int) -> Any:
        strip = render(self, y)
        lines.append(strip.text)
        return strip

    with monkeypatch.context() as patched:
        patched.setattr(Grid, "render_line", counted)
        yield lines


# 2. Work is counted.


async def test_2_idle_seconds_draw_only_the_lines_whose_ages_changed_and_ask_nothing(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        server.asked.clear()

        with drawn_lines(monkeypatch) as lines:
            for _ in range(20):
                stage.app.flush()
                await stage.pilot.pause()
            assert lines == []

            before = rows_of(stage)
            await stage.pass_time(1)

        changed = [after for was, after in zip(before, rows_of(stage), strict=True) if was != after]
        assert sorted(lines) == sorted(changed)
        assert len(changed) > 10
        assert server.asked == []


async def test_2_a_change_of_one_row_draws_one_line(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        row = list(server.tasks.values())[3]
        row["progress"] = {"share": 0.99}

        with drawn_lines(monkeypatch) as lines:
            server.push_topic("tasks")
            await stage.settle()

        assert len(lines) == 1
        assert row["id"][-8:] in lines[0]


async def test_2_a_change_out_of_sight_draws_nothing(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        list(server.tasks.values())[150]["payload"] = {"angle": 1}

        with drawn_lines(monkeypatch) as lines:
            server.push_topic("tasks")
            await stage.settle()

        assert lines == []


async def test_2_scrolling_through_ten_thousand_rows_draws_what_is_visible_and_asks_for_few_windows(
    clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = many(clock, 10_000)

    async with staged(server, clock) as stage:
        await stage.press("2")
        page, server.asked[:] = grid(stage).page, []
        with drawn_lines(monkeypatch) as lines:
            for _ in range(40):
                await stage.press("pagedown")

        asked = [request["window"] for request in stage.asked("watch")]
        moved = 40 * page
        assert len(lines) <= 40 * 2 * (page + 2)
        # A page is followed by those behind it before one comes there: no window for each page.
        assert len(asked) <= moved // 50 + 2
        assert all(window["limit"] <= 500 for window in asked)
        # And none but a jump is counted from the head.
        assert [window for window in asked if window["offset"]] == []
        assert list(server.tasks)[moved][-8:] in stage.highlighted()


async def test_2_what_comes_next_is_loaded_before_one_is_there(clock: FrozenClock) -> None:
    server = many(clock, 10_000)

    async with staged(server, clock) as stage:
        await stage.press("2")
        height = grid(stage).size.height - 1
        for _ in range(30):
            async with slow(stage):
                await stage.press("pagedown")
                assert len([row for row in rows_of(stage) if "○ pending" in row and '"angle"' in row]) == height


async def test_2_after_a_jump_the_window_hangs_on_a_row_and_not_on_a_count(clock: FrozenClock) -> None:
    server = many(clock, 10_000)

    async with staged(server, clock) as stage:
        await stage.press("2", "G")

        asked = [request["window"] for request in stage.asked("watch") if request["topic"] == "tasks"]
        assert [bool(window["offset"]) for window in asked[-2:]] == [True, False]
        assert asked[-1]["first"] == list(server.tasks)[asked[-2]["offset"]]
        assert "rows 9,9" in frame(stage)[1]


async def test_2_rows_that_come_in_above_move_nothing_under_the_reader(clock: FrozenClock) -> None:
    server = many(clock, 10_000)

    async with staged(server, clock) as stage:
        await stage.press("2", "s", *["pagedown"] * 20)
        before = [line for line in stage.lines() if '"angle"' in line]
        in_front(server, *range(20_000, 20_037))
        await stage.settle()

        assert [line for line in stage.lines() if '"angle"' in line] == before
        assert "+37 newer (g)" in frame(stage)[0]
        await stage.press("g")
        assert "newer" not in frame(stage)[0]


# 1. The cursor.


async def test_1_the_wheel_takes_the_cursor_along_so_that_keys_mean_what_is_seen(clock: FrozenClock) -> None:
    server = many(clock, 1000)

    async with staged(server, clock) as stage:
        await stage.press("2")
        tasks = grid(stage)
        for event in (MouseScrollDown, MouseScrollDown, MouseScrollUp):
            tasks.post_message(event(tasks, 5, 5, 0, 0, 0, shift=False, meta=False, ctrl=False))
            await stage.settle()

        assert tasks.scroll_offset.y == 3
        assert list(server.tasks)[6][-8:] in stage.highlighted()


async def test_1_a_row_drawn_between_two_flushes_is_the_one_that_was_there(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        shown = stage.highlighted()
        del server.tasks[next(iter(server.tasks))]
        server.push_topic("tasks")
        # No flush yet: the pane still has its rows, and the delta has not taken them away from under it.
        line = "".join(span.text for span in grid(stage).pane.line(0, 118))

        assert line.strip() in shown


# Standing still, and following.


async def test_a_frozen_list_stands_still_and_counts_what_waits(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "z")
        before = [line for line in stage.lines() if line.startswith("│")]
        first = next(iter(server.tasks.values()))
        first.update(status="completed", version=2)
        in_front(server, 30_000, 30_001)
        await stage.settle()

        assert [line for line in stage.lines() if line.startswith("│")] == before
        assert "z freeze on, 3 changes waiting" in frame(stage)[1]
        await stage.press("z")
        assert "freeze off" in frame(stage)[1]
        assert "✓ completed" in stage.text()


async def test_6_a_verb_on_a_frozen_row_means_the_task_as_it_is_now(server: MockServer, clock: FrozenClock) -> None:
    key = list(server.tasks)[40]

    async with staged(server, clock) as stage:
        await stage.press("2", *["down"] * 40, "z")
        server.tasks[key].update(status="running", version=2, queue_position=None)
        server.push_topic("tasks")
        await stage.settle()
        await stage.press("c")

        # It was pending when the list was frozen; it runs by now, and is asked about.
        assert "1 task is with a worker and will be stopped." in stage.text()


async def test_a_frozen_list_scrolls_into_parts_that_were_not_loaded(clock: FrozenClock) -> None:
    server = many(clock, 10_000)

    async with staged(server, clock) as stage:
        await stage.press("2", "z", "G")

        assert list(server.tasks)[-1][-8:] in stage.highlighted()
        assert "z freeze on" in frame(stage)[1]


async def test_the_highlight_follows_the_first_row_and_verbs_wait_for_it_to_stand(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", *["down"] * 5, "F")
        in_front(server, 30_000)
        await stage.settle()
        newest = next(iter(server.tasks))
        assert newest[-8:] in stage.highlighted()
        await stage.press("p")
        assert stage.asked("actions") == []
        assert "press F to stay on this task" in stage.text()

        await stage.press("F")
        in_front(server, 30_001)
        await stage.settle()
        assert newest[-8:] in stage.highlighted()
        await stage.press("p")

    assert stage.asked("actions")[-1]["ids"] == [newest]


async def test_moving_ends_the_following(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "F")
        assert "F follows" in frame(stage)[1]
        await stage.press("down")

        assert "F follows" not in frame(stage)[1]


async def test_a_payload_that_the_list_leaves_out_is_said_to_be_large(server: MockServer, clock: FrozenClock) -> None:
    next(iter(server.tasks.values())).update(payload={}, left_out=["payload"])
    async with staged(server, clock) as stage:
        await stage.press("2", "w")

        assert "large: enter shows it" in stage.text()


async def test_wide_gives_the_payload_the_room(server: MockServer, clock: FrozenClock) -> None:
    next(iter(server.tasks.values()))["payload"] = {"text": "x" * 60}

    async with staged(server, clock) as stage:
        await stage.press("2")
        assert "x" * 60 not in stage.text()
        await stage.press("w")
        assert "x" * 60 in stage.text()
        await stage.press("w")
        assert "PROGRESS" in stage.text()


async def test_the_frame_says_how_many_how_ordered_and_which_are_seen(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("slash", *"status:pending,running", "enter")
        await stage.press("space", "space")
        top, bottom = frame(stage)

        assert "2 Tasks  @global:modifiers:Rotate  826 of 9,417   2 marked" in top
        assert f"rows 1-{grid(stage).page} of 826   by position   z freeze off" in bottom


async def test_what_an_empty_queue_says_to_type_is_one_word_to_a_shell(server: MockServer, clock: FrozenClock) -> None:
    server.jobs["odd"] = job("lab:tasks:two words", 77, counts={}, wave=0, oldest=None, workers=[])

    async with staged(server, clock) as stage:
        await typed(stage, "tasks lab:tasks:two words")

        assert "$ treadle submit 'lab:tasks:two words' " in stage.text()


@pytest.mark.parametrize(
    "names",
    [
        [f"{room}:tasks:recalculate_the_stock_of_all_warehouses" for room in ("eu", "us", "asia")],
        [f"warehouse_{town}:tasks:recalculate_the_stock_of_today" for town in ("berlin", "hamburg", "munich")],
        [f"@global:tasks:recalculate_the_stock_of_warehouse_{number}" for number in (1, 2, 3)],
        [f"{room}:tasks:recalculate_the_stock_of_all_warehouses" for room in ("@global", "eu")],
    ],
    ids=["rooms", "long rooms", "names", "the shared room"],
)
async def test_names_that_differ_at_one_end_are_told_apart_on_a_narrow_screen(
    names: list[str], clock: FrozenClock
) -> None:
    server = MockServer(clock)
    jobs = [job(name, number, counts={}, wave=0, oldest=None, workers=[]) for number, name in enumerate(names)]
    server.jobs = {row["id"]: row for row in jobs}
    server.tasks = {row["id"]: row for row in (task(number, name) for number, name in enumerate(names))}

    async with staged(server, clock, size=(80, 30)) as stage:
        await stage.press("g")
        lines = [line[4:].split("  ")[0] for line in stage.lines() if "● open" in line]
        listed = [line.split("pending")[1].split("  ")[1] for line in stage.lines() if "○ pending" in line]

    assert len(set(lines)) == len(set(listed)) == len(names)
    assert all("…" in line for line in lines + listed)
