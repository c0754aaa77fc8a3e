"""A task's screen: its rail, its sheets, what one looks for in them, and what is live."""

import pytest

from tests.tui.happenings import a_storied_task_with_much_in_it
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import storied_task
from tests.tui.stage import Stage, staged
from treadle_tui.core.setup.app_state import AppState
from treadle_tui.core.state.detail import MOST_LOGS
from treadle_tui.widgets.reader import Reader


async def opened(stage: Stage) -> None:
    await stage.press("2", "enter")


def only(server: MockServer, key: str) -> str:
    server.tasks = {key: server.tasks[key]}
    return key


async def test_the_log_of_a_running_task_is_followed_live(server: MockServer, clock: FrozenClock) -> None:
    key = only(server, storied_task(server))
    line = server.logs[key][0]

    async with staged(server, clock) as stage:
        await opened(stage)
        assert "[Logs 18]" in stage.text()

        server.logs[key] += [{**line, "message": f"later {number}"} for number in range(100)]
        server.tasks[key]["progress"] = {"share": 0.9, "message": "frame 225 of 250"}
        server.push_topic("task")
        await stage.settle()

        assert "later 99" in stage.text()
        assert "follows" in stage.text()
        assert "90% frame 225 of 250" in stage.text()
        await stage.press("g")
        server.logs[key] += [{**line, "message": "after all"}]
        server.push_topic("task")
        await stage.settle()
        assert "after all" not in stage.text()
        await stage.press("F")
        assert "after all" in stage.text()


async def test_something_is_looked_for_in_a_sheet_and_found_where_it_is_folded_away(
    server: MockServer, clock: FrozenClock
) -> None:
    a_storied_task_with_much_in_it(server)

    async with staged(server, clock) as stage:
        await opened(stage)
        await stage.press(*["shift+tab"] * 3)
        assert "[Payload]" in stage.text()
        assert "frame-0399" not in stage.text()

        await stage.press("slash", *"frame-039", "enter")
        assert "frame-0390.xyz" in stage.text()
        assert '"frame-039" 1 of 10' in stage.text()
        await stage.press("N")
        assert "frame-0399.xyz" in stage.text()
        assert "10 of 10" in stage.text()
        await stage.press("n")
        assert "1 of 10" in stage.text()

        await stage.press("escape")
        assert "of 10" not in stage.text()
        assert "[Payload]" in stage.text(), "the first escape ends the search, the second leaves"
        await stage.press("escape")
        assert "2 Tasks" in stage.text()


async def test_an_empty_sheet_has_no_lines_to_be_counted(server: MockServer, clock: FrozenClock) -> None:
    server.tasks = dict([next(iter(server.tasks.items()))])
    next(iter(server.tasks.values())).update(error=None, checkpoint=None)

    async with staged(server, clock) as stage:
        await opened(stage)
        for _ in range(8):
            await stage.press("tab")
            if "No checkpoint" in stage.text():
                break

        assert "No checkpoint" in stage.text()
        assert "lines 1-1" not in stage.text()


async def test_what_is_not_there_is_said_not_to_be(server: MockServer, clock: FrozenClock) -> None:
    only(server, storied_task(server))

    async with staged(server, clock) as stage:
        await opened(stage)
        await stage.press("slash", *"zebra", "enter")

        assert '"zebra" not found' in stage.text()


async def test_no_key_leaves_the_search_with_what_is_not_looked_for(server: MockServer, clock: FrozenClock) -> None:
    only(server, storied_task(server))

    async with staged(server, clock) as stage:
        await opened(stage)
        before = stage.line_of("Payload")
        await stage.press("slash", *"zeb", "tab", "shift+tab", *"ra")
        assert stage.line_of("Payload") == before, "its sheet was turned"
        await stage.press("enter")

        assert '"zebra" not found' in stage.text()


async def test_a_click_elsewhere_leaves_the_search(server: MockServer, clock: FrozenClock) -> None:
    only(server, storied_task(server))

    async with staged(server, clock) as stage:
        await opened(stage)
        await stage.press("slash", *"zebra")
        assert "/ zebra" in stage.text()

        await stage.pilot.click("Reader", offset=(5, 2))
        await stage.settle()

        assert "zebra" not in stage.text()


async def test_a_container_is_folded_with_enter(server: MockServer, clock: FrozenClock) -> None:
    a_storied_task_with_much_in_it(server)

    async with staged(server, clock) as stage:
        await opened(stage)
        await stage.press(*["shift+tab"] * 3, *["down"] * 6, "enter")

        assert '▸ "frames": [ 400 items ]' in stage.text()
        assert '"options"' in stage.text()


async def test_long_lines_are_wrapped_or_shown_from_another_column(server: MockServer, clock: FrozenClock) -> None:
    key = only(server, storied_task(server))
    server.logs[key] = [{**server.logs[key][0], "message": "a" * 100 + "the end"}]

    async with staged(server, clock) as stage:
        await opened(stage)
        assert "the end" not in stage.text()
        assert "a…│" in stage.text()
        await stage.press("w")
        assert "the end" in stage.text()
        assert "a…│" not in stage.text()
        await stage.press("w")
        assert "the end" not in stage.text()
        await stage.press(*["right"] * 10)
        assert "the end" in stage.text()


async def test_where_it_is_narrow_the_rail_is_a_sheet(server: MockServer, clock: FrozenClock) -> None:
    only(server, storied_task(server))

    async with staged(server, clock, size=(80, 24)) as stage:
        await opened(stage)
        assert "created by mia" not in stage.text()

        await stage.press("tab", "tab")

        assert "[Runs 3]" in stage.text()
        assert "exception: worker-shutdown" in stage.text()


async def test_where_it_is_low_what_the_rail_has_no_room_for_is_read_in_a_sheet(
    server: MockServer, clock: FrozenClock
) -> None:
    only(server, storied_task(server))

    async with staged(server, clock, size=(120, 24)) as stage:
        await opened(stage)
        assert "created by mia" not in stage.text()
        assert " Runs 3 " in stage.text()

        await stage.press("tab", "tab", "g")

        assert "[Runs 3]" in stage.text()
        assert "created by mia" in stage.text()

    async with staged(server, clock, size=(120, 50)) as stage:
        await opened(stage)
        assert "created by mia" in stage.text()
        assert " Runs 3 " not in stage.text()


async def test_a_task_that_is_gone_is_said_to_be(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(80, 24)) as stage:
        key = next(iter(server.tasks))
        await stage.press("2")
        server.tasks = {other: row for other, row in server.tasks.items() if other != key}
        await stage.press("enter")

        assert "No such task" in stage.text()
        assert "Press esc to go back." in stage.text()


async def test_why_a_verb_is_refused_is_told_to_its_end(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(80, 24)) as stage:
        await opened(stage)
        server.drop("no server answers at http://127.0.0.1:7420 (refused): start one with treadle server")
        await stage.press("c")

        assert "no connection: no server answers" in stage.text()
        assert "treadle server" in stage.text()
        await stage.press("escape", "3", "D")
        assert "treadle server" in stage.text()


async def test_10_a_million_log_lines_are_shown_to_their_end_and_the_rest_is_said_to_be_missing(
    server: MockServer, clock: FrozenClock
) -> None:
    key = only(server, storied_task(server))
    line = server.logs[key][0]
    server.logs[key] = [line] * 999_999 + [{**line, "message": "the last one"}]

    async with staged(server, clock) as stage:
        await opened(stage)
        assert "the last one" in stage.text()
        await stage.press("g")

        assert f"{1_000_000 - MOST_LOGS:,} earlier lines are not shown" in stage.text()


async def test_an_idle_task_draws_no_sheet_again(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_storied_task_with_much_in_it(server)
    async with staged(server, clock) as stage:
        await opened(stage)
        drawn: list[int] = []
        reader = stage.app.screen.query_one("#sheet-payload")
        monkeypatch.setattr(reader, "render_line", lambda y: drawn.append(y) or type(reader).render_line(reader, y))

        await stage.press(*["shift+tab"] * 3)
        assert drawn, "it can be seen being drawn"
        drawn.clear()
        for _ in range(10):
            stage.app.flush()
            await stage.pilot.pause()
        server.push_topic("task")
        await stage.settle()

        assert drawn == []


async def test_7_without_a_server_the_task_is_dimmed_and_comes_back(server: MockServer, clock: FrozenClock) -> None:
    only(server, storied_task(server))
    async with staged(server, clock) as stage:
        await opened(stage)
        reader = stage.app.screen.query_one("#sheet-logs", Reader)
        assert reader.tone("warn").color != reader.tone("faint").color

        server.drop()
        clock.advance(2)
        await stage.settle()
        assert {reader.tone(name).color for name in ("plain", "bold", "run", "warn", "bad")} == {
            reader.tone("faint").color
        }

        server.open()
        await stage.settle()
        assert reader.tone("warn").color != reader.tone("faint").color


async def test_the_trace_is_an_osc_8_link_on_the_terminal(server: MockServer, clock: FrozenClock) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    key = storied_task(server)
    server.tasks = {key: {**server.tasks[key], "trace_id": trace}}
    app_state = AppState(trace_url="https://traces.example/{trace_id}")

    async with staged(server, clock, app_state=app_state) as stage:
        await stage.press("2", "enter")
        strips = stage.app.screen._compositor.render_strips()
        [written] = [strip.render(stage.app.console) for strip in strips if trace in strip.text]

    assert f";https://traces.example/{trace}\x1b\\" in written


async def test_a_log_of_as_many_lines_as_are_sent_says_that_there_may_be_more(
    server: MockServer, clock: FrozenClock
) -> None:
    key = only(server, storied_task(server))
    server.logs[key] = [{**server.logs[key][0], "message": f"line {number}"} for number in range(1_000)]

    async with staged(server, clock) as stage:
        await opened(stage)

        assert "[Logs 1,000+]" in stage.text()
        assert "-1,000 of 1,000+   follows" in stage.text()
