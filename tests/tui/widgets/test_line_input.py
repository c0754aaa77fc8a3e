"""H3: what one types in draws nothing that a terminal obeys, wherever its text comes from."""

import json

import pytest

from tests.tui.happenings import only_a_task_that_waits_for_a_message, targets_are_held
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged, typed
from treadle_tui.core.draw.text import bare
from treadle_tui.widgets.line_input import LONGEST, LineInput

TITLE = "\x1b]0;other\x07"
OBEYED = {"\x1b", "\x07"}
HOSTILE = f"a{TITLE}\x9b31m\x08\x7f\u202eb\u2066c\u2028"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("status:failed", "status:failed"),
        (HOSTILE, "a]0;other31mbc"),
        ("a\tb\r\nc", "a b  c"),
        ("宽 👩\u200d👩\u200d👧 \U0001fae9", "宽 👩\u200d👩\u200d👧 \U0001fae9"),
        ("\ufeffstatus:failed\u200b", "status:failed"),
        ("می\u200c", "می\u200c"),
    ],
)
def test_a_text_loses_what_a_terminal_obeys_and_nothing_else(text: str, left: str) -> None:
    assert bare(text) == left
    assert bare(left) == left


@pytest.mark.parametrize("keys", [("slash",), ("colon",), ("2", "enter", "slash"), ("question_mark", "slash")])
async def test_what_is_pasted_into_a_line_loses_what_a_terminal_obeys(
    server: MockServer, clock: FrozenClock, keys: tuple[str, ...]
) -> None:
    async with staged(server, clock) as stage:
        await stage.press(*keys)
        await stage.paste(f"x{HOSTILE}")
        await stage.press("y")

        assert "xa]0;other31mbcy" in stage.text()


@pytest.mark.parametrize(
    "keys", [("slash",), ("colon",), ("2", "enter", "slash"), ("question_mark", "slash"), ("2", "enter", "m")]
)
async def test_a_text_that_is_too_long_for_a_line_is_left_out_and_told(
    server: MockServer, clock: FrozenClock, keys: tuple[str, ...]
) -> None:
    async with staged(server, clock) as stage:
        await stage.press(*keys, "a")
        await stage.paste("日本 " * 300_000)

        assert "the text of 900,000 characters is too long: a line takes 200,000" in stage.text()
        assert isinstance(stage.app.focused, LineInput)
        assert stage.app.focused.value == "a"

        await stage.paste("b" * (LONGEST - 1))
        await stage.press("c")

        assert stage.app.focused.value == "a" + "b" * (LONGEST - 1)


async def test_a_name_that_a_terminal_would_obey_is_not_offered(server: MockServer, clock: FrozenClock) -> None:
    targets_are_held(server)
    row = next(iter(server.targets.values()))
    row.update(name=f"zoom{TITLE}")

    async with staged(server, clock) as stage:
        for begun in ("slash", "colon"):
            await stage.press("4", begun)
            await stage.paste("target:zo" if begun == "slash" else "filter target:zo")
            assert not set(stage.text()) & OBEYED
            await stage.press("tab")
            assert not set(stage.text()) & OBEYED
            await stage.press("escape")

        row.update(name="zoomed")
        server.push_topic("targets")
        await stage.press("4", "slash")
        await stage.paste("target:zo")
        await stage.press("tab")
        assert "/ target:zoomed" in stage.text()


async def test_a_filter_from_elsewhere_is_shown_without_it(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, wanted=HOSTILE) as stage:
        assert "/ a]0;other31mbc" in stage.text()
        await typed(stage, f"filter {HOSTILE}")
        assert "/ a]0;other31mbc" in stage.text()


async def test_the_data_of_a_message_means_the_same(server: MockServer, clock: FrozenClock) -> None:
    only_a_task_that_waits_for_a_message(server)
    data = {"by": "\u200fann\u202e \U0001fae9 👩\u200d👩", "at": [1, "\x7f"]}

    async with staged(server, clock) as stage:
        await stage.press("2", "enter", "m")
        await stage.paste(json.dumps(data, ensure_ascii=False, indent=2))
        assert "\u202e" not in stage.text()
        await stage.press("enter")

        [sent] = stage.asked("send")
        assert sent["data"] == data
