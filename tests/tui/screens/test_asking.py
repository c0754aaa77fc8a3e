"""What is typed behind a key that waits for the server goes to the dialog that this key opens."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tui.happenings import only_a_task_that_waits_for_a_message, targets_are_held, tasks_have_failed
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, slow, staged
from treadle_tui.widgets.confirm import Confirm
from treadle_tui.widgets.question import Question


# Stands twice: as in test_messages.py, whose tests press one key after the other.
@pytest.fixture
async def stage(server: MockServer, clock: FrozenClock) -> AsyncIterator[Stage]:
    """The screen of a task that waits for a message."""
    only_a_task_that_waits_for_a_message(server)
    async with staged(server, clock) as stage:
        await stage.press("2", "enter")
        yield stage


async def test_6_keys_behind_the_one_that_sends_a_message_are_the_messages_text(stage: Stage) -> None:
    async with slow(stage):
        await stage.burst("m", *'"cpr"')
        await stage.burst("enter")

    assert [(sent["name"], sent["data"]) for sent in stage.asked("send")] == [("approved", "cpr")]
    assert stage.asked("actions") == []


async def test_6_what_is_pasted_behind_it_comes_in_its_turn(stage: Stage) -> None:
    async with slow(stage):
        await stage.burst("m", "1")
        await stage.paste("23")
        await stage.burst("4", "enter")

    assert [sent["data"] for sent in stage.asked("send")] == [1234]


async def test_6_keys_for_a_dialog_that_is_refused_are_nobodys(stage: Stage) -> None:
    next(iter(stage.server.tasks.values()))["status"] = "completed"
    async with slow(stage):
        await stage.burst("m", *"pcr", "enter")

    assert "can't send to a completed task" in stage.text()
    assert stage.asked("actions") == []


async def test_6_escape_gives_up_what_is_waited_for_and_what_was_typed_for_it(stage: Stage) -> None:
    async with slow(stage):
        await stage.burst("m", *"pc")
        await stage.pass_time(2)
        assert "waiting for the server's answer; press esc to give up" in stage.text()
        await stage.burst("escape")

    assert "Send a message" not in stage.text()
    assert stage.asked("actions") == []
    await stage.press("m")
    assert "Send a message" in stage.text()


async def test_6_escape_gives_up_what_has_not_even_begun(stage: Stage) -> None:
    """Typed in one go, as by who presses two keys at once: no key was taken from then on, not even that to quit."""
    await stage.burst("m", "escape")

    await stage.press("m")

    assert "Send a message" in stage.text()


@pytest.mark.parametrize("typed", ["y", "6"])
async def test_6_the_answer_that_is_typed_behind_the_key_answers_its_question(
    server: MockServer, clock: FrozenClock, typed: str
) -> None:
    tasks_have_failed(server)
    async with staged(server, clock) as stage:
        await stage.press("7")
        async with slow(stage):
            await stage.burst("S", typed)

        # Only `y` agrees; anything else is looked at by the question, and by no screen below.
        asked = [request["action"] for request in stage.asked("actions")]
        assert asked == (["resolve"] if typed == "y" else [])
        assert isinstance(stage.app.screen, Confirm) == (typed != "y")


async def test_6_the_answer_behind_a_verb_in_a_list_answers_its_question(
    server: MockServer, clock: FrozenClock
) -> None:
    """The row's task is read first, and then it is asked whether what runs is to be cancelled; `y` alone copies."""
    targets_are_held(server)
    async with staged(server, clock) as stage:
        await stage.press("4", "down", "down")
        async with slow(stage):
            await stage.burst("c", "y")

        assert [request["action"] for request in stage.asked("actions")] == ["cancel"]
        assert "cancelled 1 task" in stage.text()


async def test_6_a_verb_that_asks_nothing_lets_the_keys_behind_it_act_on_the_screen(
    server: MockServer, clock: FrozenClock
) -> None:
    tasks_have_failed(server)
    async with staged(server, clock) as stage:
        await stage.press("7")
        before = stage.highlighted()
        async with slow(stage):
            await stage.burst("r", "down")

        assert [request["action"] for request in stage.asked("actions")] == ["resume"]
        assert stage.highlighted() != before


async def test_6_a_verb_behind_the_key_that_marks_all_acts_on_all(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, size=(120, 20)) as stage:
        await stage.press("2")
        stage.app._main._list.mark_loaded = lambda: False  # type: ignore[method-assign]
        async with slow(stage):
            await stage.burst("*", "p")

        assert "Pause 827 tasks?" in stage.text()


async def test_6_the_letter_behind_a_files_name_answers_whether_it_may_be_overwritten(
    server: MockServer, clock: FrozenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "there.json"
    path.write_text("mine")
    looked = asyncio.Event()

    async def exists(_: Path) -> bool:
        await looked.wait()
        return True

    monkeypatch.setattr("treadle_tui.files.exists", exists)
    async with staged(server, clock) as stage:
        await stage.press("2", "x", "ctrl+u")
        await stage.paste(str(path))
        await stage.burst("enter", "q")
        looked.set()
        await stage.settle()

        assert isinstance(stage.app.screen, Question)
        assert stage.app.is_running
    assert path.read_text() == "mine"
