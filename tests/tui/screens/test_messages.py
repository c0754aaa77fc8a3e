"""M1: a message is sent from a task's screen."""

from collections.abc import AsyncIterator

import pytest

from tests.tui.happenings import only_a_task_that_waits_for_a_message
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, staged, typed
from treadle_tui.core.draw.text import plain
from treadle_tui.widgets.styled_text import StyledText


@pytest.fixture
async def stage(server: MockServer, clock: FrozenClock) -> AsyncIterator[Stage]:
    """The screen of a task that waits for a message."""
    only_a_task_that_waits_for_a_message(server)
    async with staged(server, clock) as stage:
        await stage.press("2", "enter")
        yield stage


def said(stage: Stage) -> str:
    """What the dialog says is wrong."""
    lines = stage.app.screen.query_one("#hint", StyledText)._lines
    return " ".join(plain(line).strip() for line in lines)


async def test_what_the_task_waits_for_is_offered_and_its_data_is_sent_as_json(stage: Stage) -> None:
    await stage.press("m")
    assert "it waits for approved" in stage.text()
    await stage.paste('{\n  "by": "ann"\n}')
    await stage.press("enter")

    [sent] = stage.asked("send")
    assert (sent["task_id"], sent["name"], sent["data"]) == (next(iter(stage.server.tasks)), "approved", {"by": "ann"})
    assert "sent approved to" in stage.text()
    assert "waits until the task receives it" in stage.text()


async def test_6_a_message_can_not_be_undone_nor_what_was_done_before_it(stage: Stage) -> None:
    await stage.press("p")
    assert "undo 5s" in stage.text()

    await typed(stage, "send approved")
    assert "sent approved to" in stage.text()
    assert "undo" not in stage.text()
    await stage.press("u")

    assert "nothing to undo" in stage.text()
    assert [request["action"] for request in stage.asked("actions")] == ["pause"]


async def test_another_name_is_written_and_one_that_was_asked_for_before_is_completed(stage: Stage) -> None:
    await stage.press("m", "shift+tab", "ctrl+u", *"bud", "right", "enter", "enter")

    [sent] = stage.asked("send")
    assert (sent["name"], sent["data"]) == ("budget", None)


async def test_a_command_sends_at_once(stage: Stage) -> None:
    await typed(stage, 'send approved {"by": "ann"}')

    [sent] = stage.asked("send")
    assert (sent["name"], sent["data"]) == ("approved", {"by": "ann"})


async def test_what_is_no_json_stays_with_what_is_wrong_and_nothing_is_sent(stage: Stage) -> None:
    await stage.press("m", *"{ann}", "enter")
    assert "the data is not valid JSON" in stage.text()
    assert "{ann}" in stage.text()

    await stage.press("backspace")
    assert "the data is not valid JSON" not in stage.text()
    await stage.press("escape")
    await typed(stage, "send approved {ann}")
    assert "the data is not valid JSON" in stage.text()
    assert stage.asked("send") == []


@pytest.mark.parametrize("problem", ["invalid-task-transition", "payload-too-large", "forbidden", "too-many-requests"])
async def test_a_refusal_is_told_in_words_and_what_was_written_is_sent_again_by_the_same_id(
    stage: Stage, problem: str
) -> None:
    stage.server.refuses["send"] = problem
    await stage.press("m", "7", "enter")
    assert said(stage).startswith("could not send: ")
    assert said(stage).endswith("as the test wants it")

    stage.server.refuses.clear()
    await stage.press("enter")
    first, again = stage.asked("send")
    assert (again["name"], again["data"], again["id"]) == ("approved", 7, first["id"])
    await stage.press("m", "7", "enter")
    assert stage.asked("send")[2]["id"] != first["id"], "this one is another message"


async def test_a_refusal_that_is_left_is_told_below(stage: Stage) -> None:
    stage.server.refuses["send"] = "forbidden"
    await stage.press("m", "7", "enter", "escape")
    assert "could not send:" in stage.text()


async def test_an_ended_task_takes_none(stage: Stage) -> None:
    row = next(iter(stage.server.tasks.values()))
    row["status"] = "completed"

    await stage.press("m")
    assert "can't send to a completed task" in stage.text()
    await typed(stage, "send approved 1")
    assert "can't send to a completed task" in stage.text()
    assert stage.asked("send") == []


async def test_without_a_connection_and_read_only_nothing_is_asked(
    server: MockServer, clock: FrozenClock, stage: Stage
) -> None:
    stage.server.drop()
    await stage.settle()
    await stage.press("m")
    assert "no connection" in stage.text()
    await typed(stage, "send approved 1")
    assert "send is off: no connection" in stage.text()
    assert stage.asked("send") == []


async def test_a_read_only_dashboard_sends_nothing(server: MockServer, clock: FrozenClock) -> None:
    only_a_task_that_waits_for_a_message(server)
    async with staged(server, clock, read_only=True) as stage:
        await stage.press("2", "enter", "m")
        assert "Send a message" not in stage.text()
        await typed(stage, "send approved 1")
        assert "read-only" in stage.text()


async def test_10_a_hostile_name_is_offered_spelt_out_and_sent_as_it_is(stage: Stage) -> None:
    key = next(iter(stage.server.tasks))
    name = '\x1b]0;owned\x07[bold]\u202e"x'
    stage.server.steps[key][-1]["step"] = name

    await stage.press("m")
    assert "\x1b" not in stage.text()
    assert "\u202e" not in stage.text()
    assert "owned" in stage.text()
    await stage.press("1", "enter")

    [sent] = stage.asked("send")
    assert (sent["name"], sent["data"]) == (name, 1)
    assert "\u202e" not in stage.text()
