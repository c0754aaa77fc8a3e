"""The filter line keeps what was filtered by, selected: typing begins anew, and an arrow goes on with it."""

import pytest
from textual import events

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged
from treadle import filters
from treadle_tui.screens.catalog import LIST_SCREENS


@pytest.mark.parametrize(
    ("typed", "filtered"),
    [
        (["s", "p", "i", "n"], "spin"),
        (["end", "1"], "angle1"),
        (["right", "1"], "angle1"),
        (["left", "x"], "xangle"),
        (["backspace"], ""),
        ([], "angle"),
    ],
)
async def test_a_filter_that_is_typed_in_again_is_replaced_by_letters_and_kept_by_arrows(
    server: MockServer, clock: FrozenClock, typed: list[str], filtered: str
) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("/", *"angle", "enter")
        await stage.settle()

        await stage.burst("/", *typed, "enter")
        await stage.settle()

        assert stage.asked("watch")[-1]["window"]["filter"].get("text", "") == filtered


async def test_one_who_leaves_the_line_has_changed_nothing(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("/", *"angle", "enter")
        await stage.settle()
        asked = len(stage.asked("watch"))

        await stage.burst("/", *"spin", "escape")
        await stage.settle()

        assert "/ angle" in stage.text()
        assert len(stage.asked("watch")) == asked


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_what_is_wrong_with_a_filter_is_told_to_its_end_and_leaves_room_to_mend_it(
    server: MockServer, clock: FrozenClock, size: tuple[int, int]
) -> None:
    async with staged(server, clock, size=size) as stage:
        await stage.burst("/", *"status:faild", "enter")
        await stage.settle()

        told = " ".join(" ".join(stage.lines()[-6:]).split())
        assert 'there is no status "faild"; write one of scheduled' in told
        assert "completed, failed, cancelled" in told
        assert any(line.startswith(" / status:faild ") for line in stage.lines())


@pytest.mark.parametrize("screen", ["2", "4"])
async def test_what_was_wrong_with_a_filter_is_told_no_more_once_it_is_mended(
    screen: str, server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press(screen)
        await stage.burst("/", *"satus:done", "enter")
        assert 'there is no "satus:"' in stage.text()

        await stage.burst("ctrl+u", *"status:done", "enter")
        await stage.settle()

        assert 'there is no "satus:"' not in stage.text()


async def test_tab_completes_and_leaves_the_line_to_what_is_typed_next(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("/", *"stat", "tab", *"fai", "tab", "enter")
        await stage.settle()

        assert "/ status:failed " in stage.text()
        assert stage.asked("watch")[-1]["window"]["filter"]["status"] == ["failed"]


async def test_tab_leaves_what_it_cannot_complete_as_it_is_and_the_line_in_focus(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("/", *"some", "tab", "shift+tab", *" text", "enter")
        await stage.settle()

        assert stage.asked("watch")[-1]["window"]["filter"]["text"] == "some text"


@pytest.mark.parametrize("key", ["tab", "shift+tab"])
async def test_tab_leads_from_pane_to_pane_and_never_into_the_line(
    server: MockServer, clock: FrozenClock, key: str
) -> None:
    async with staged(server, clock) as stage:
        visited = []
        for _ in range(4):
            await stage.press(key)
            visited.append(stage.app.focused.id if stage.app.focused is not None else None)

        assert visited == ["tasks", "queues"] * 2


async def test_the_line_shows_what_the_list_is_narrowed_by_after_a_click_elsewhere(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("/", *"angle", "enter")
        await stage.burst("/", *"status:failed")
        assert "/ status:failed " in stage.text()

        await stage.pilot.click("#tasks", offset=(5, 4))
        await stage.settle()

        assert "/ angle " in stage.text()
        assert "status:failed" not in stage.text()


async def test_what_is_typed_outlasts_a_look_at_another_window(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.burst("/", *"angle")

        stage.app.post_message(events.AppBlur())
        await stage.settle()
        stage.app.post_message(events.AppFocus())
        await stage.settle()
        await stage.burst("1", "enter")

        assert stage.asked("watch")[-1]["window"]["filter"]["text"] == "angle1"


@pytest.mark.parametrize("line", ["filter status:pending", "sort position"])
async def test_the_same_filter_or_order_once_more_shows_the_same_list(
    line: str, server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        await stage.press("colon")
        await stage.paste(line)
        await stage.press("enter")
        shown = stage.line_of("rows 1-")

        await stage.press("colon")
        await stage.paste(line)
        await stage.press("enter")

        assert stage.line_of("rows 1-") == shown
        assert "Loading" not in stage.text()


@pytest.mark.parametrize("screen", ["targets", "schedules", "failures", "limits"])
async def test_a_list_of_other_rows_than_tasks_offers_only_what_can_match_one(
    screen: str, server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        stage.app.go(screen)
        await stage.settle()
        hint = stage.lines()[-2].split("filter: ")[1]
        named = {name for name, value in filters.parse(hint) if value is not None}
        assert named <= set(LIST_SCREENS[screen].FIELDS or ())

        await stage.burst("/", *"end", "tab", "enter")

        assert "/ end " in stage.text()
