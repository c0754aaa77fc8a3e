"""M1: an ended task is run again from its screen, from its start or from a step."""

from collections.abc import AsyncIterator

import pytest

from tests.tui.happenings import only_a_task_that_failed_behind_its_steps
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, staged, typed


@pytest.fixture
async def stage(server: MockServer, clock: FrozenClock) -> AsyncIterator[Stage]:
    """The screen of a task that has failed behind some steps."""
    only_a_task_that_failed_behind_its_steps(server)
    async with staged(server, clock) as stage:
        await stage.press("2", "enter")
        yield stage


async def test_the_steps_that_it_keeps_are_named_and_completed(stage: Stage) -> None:
    await stage.press("a")
    assert "it has kept plan, charge" in stage.text()
    await stage.press(*"ch", "right", "enter")

    [sent] = stage.asked("action")
    key = next(iter(stage.server.tasks))
    assert (sent["id"], sent["action"], sent["from_step"]) == (key, "rerun", "charge")
    assert f"rerun {key[-8:]} from charge" in stage.text()


async def test_nothing_written_means_the_start_for_a_failed_one_too(stage: Stage) -> None:
    """`r` has it go on from its checkpoint and with its steps."""
    await stage.press("a", "enter")

    [sent] = stage.asked("action")
    assert "from_step" not in sent
    assert " from its start" in stage.text()


async def test_steps_that_are_not_among_those_that_are_shown_are_counted_too(stage: Stage) -> None:
    next(iter(stage.server.tasks.values()))["steps"] = 2003
    stage.server.push_topic("task")
    await stage.settle()

    await stage.press("a")
    assert "it has kept 2,000 more, and plan, charge" in stage.text()


async def test_a_command_runs_it_again_at_once(stage: Stage) -> None:
    await typed(stage, "rerun plan")

    [sent] = stage.asked("action")
    assert sent["from_step"] == "plan"


async def test_a_command_with_nothing_behind_it_asks(stage: Stage) -> None:
    await typed(stage, "rerun")
    assert "it has kept plan, charge" in stage.text()
    await stage.press("escape")
    assert stage.asked("action") == []


async def test_a_step_that_it_does_not_keep_is_told_and_nothing_is_changed(stage: Stage) -> None:
    await stage.press("a", *"ship", "enter")

    assert "could not rerun: " in stage.text()
    assert "the task has no step 'ship'" in stage.text()
    assert next(iter(stage.server.tasks.values()))["status"] == "failed"


async def test_a_name_whose_quotes_do_not_close_stays_with_what_is_wrong(stage: Stage) -> None:
    await stage.press("a", *'"plan', "enter")
    assert "the name is not valid JSON" in stage.text()
    await stage.press("backspace")
    assert "the name is not valid JSON" not in stage.text()
    await stage.press("escape")
    await typed(stage, 'rerun "plan')
    assert "the name is not valid JSON" in stage.text()
    assert stage.asked("action") == []


async def test_a_name_of_nothing_is_no_step_and_not_the_start(stage: Stage) -> None:
    await stage.press("a", *'""', "enter")
    assert "the step needs a name: leave the line empty for the start" in stage.text()
    assert stage.asked("action") == []


async def test_10_a_hostile_step_is_spelt_out_and_asked_for_as_it_is(stage: Stage) -> None:
    key = next(iter(stage.server.tasks))
    name = '\x1b]0;owned\x07[bold]\u202e"x'
    stage.server.steps[key][0]["step"] = stage.server.histories[key][0]["step"] = name
    stage.server.push_topic("task")
    await stage.settle()

    await stage.press("a")
    assert "\x1b" not in stage.text()
    assert "\u202e" not in stage.text()
    await stage.press('"', "right", "enter")

    [sent] = stage.asked("action")
    assert sent["from_step"] == name


async def test_one_that_has_not_ended_is_not_run_again(stage: Stage) -> None:
    row = next(iter(stage.server.tasks.values()))
    row["status"], row["version"] = "running", row["version"] + 1
    stage.server.push_topic("task")
    await stage.settle()

    await stage.press("a")
    assert "can't rerun a running task" in stage.text()
    await typed(stage, "rerun plan")
    assert "can't rerun a running task" in stage.text()
    assert stage.asked("action") == []


async def test_6_what_was_done_before_it_is_not_what_undo_means_then(stage: Stage) -> None:
    async def become(status: str) -> None:
        row = next(iter(stage.server.tasks.values()))
        row["status"], row["version"] = status, row["version"] + 1
        stage.server.push_topic("task")
        await stage.settle()

    await become("paused")
    await stage.press("r")
    assert "undo 5s" in stage.text()
    await become("failed")

    await stage.press("a", "enter", "u")

    assert "nothing to undo" in stage.text()


async def test_a_read_only_dashboard_runs_nothing_again(server: MockServer, clock: FrozenClock) -> None:
    only_a_task_that_failed_behind_its_steps(server)
    async with staged(server, clock, read_only=True) as stage:
        await stage.press("2", "enter", "a")
        assert "again" not in stage.text().splitlines()[-1]
        await typed(stage, "rerun plan")
        assert "read-only" in stage.text()
        assert stage.asked("action") == []
