"""The targets' pane: who holds each, who waits, and verbs on the holder."""

import pytest

from tests.tui.happenings import holder, target, targets_are_held
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import RDF, task, uuid
from tests.tui.stage import staged

HELD = target(1, "cam-1", holder(7, "paused", since=9, job_name=RDF, worker_id=uuid(20_001)), waiting=2)


@pytest.fixture
def held(server: MockServer) -> MockServer:
    targets_are_held(server)
    return server


async def test_no_verb_is_named_where_there_is_nothing_that_it_could_mean(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("4")
        assert "No target is held" in stage.text()
        assert "cancel" not in stage.lines()[-1]
        assert "/ filter" in stage.lines()[-1]

        targets_are_held(server)
        server.push_topic("targets")
        await stage.settle()
        assert "c cancel" in stage.lines()[-1]


async def test_what_is_waited_for_stands_first_and_of_that_the_longest_held(
    held: MockServer, clock: FrozenClock
) -> None:
    async with staged(held, clock) as stage:
        await stage.press("4")

        names = [
            line.split("│")[1].split()[">" in line] for line in stage.lines() if "room_42:" in line or "lab:" in line
        ]
        assert names == [
            "room_42:cam-2", "room_42:cam-3", "room_42:cam-1", "lab:stage", "room_42:cam-4", "room_42:cam-5",
            "room_42:printer", "lab:lens",
        ]  # fmt: skip
        assert "8, 7 held, 21 tasks waiting" in stage.text()
        assert "‖ paused    12m40  by hand" in stage.text()


async def test_it_is_told_live_who_holds_a_target(held: MockServer, clock: FrozenClock) -> None:
    async with staged(held, clock) as stage:
        await stage.press("4")
        held.targets["2"] = target(2, "cam-2", holder(44, "running", since=0, until=60), waiting=11)
        held.push_topic("targets")
        await stage.settle()

        line = next(line for line in stage.lines() if "cam-2" in line)
        assert "● running" in line
        assert uuid(44)[-8:] in line


async def test_enter_opens_the_holder(held: MockServer, clock: FrozenClock) -> None:
    key = uuid(990)
    async with staged(held, clock) as stage:
        await stage.press("4", "enter")

        assert key in stage.text()
        assert "‖ paused" in stage.text()
        await stage.press("escape")
        assert "4 Targets" in stage.text()


async def test_6_a_verb_means_the_holder_as_it_is_now(held: MockServer, clock: FrozenClock) -> None:
    key = uuid(990)
    async with staged(held, clock) as stage:
        await stage.press("4", "r")
        await stage.settle()

        assert stage.asked("get")[-1]["id"] == key
        asked = stage.asked("actions")[-1]
        assert (asked["action"], asked["ids"]) == ("resume", [key])
        assert "resumed 1 task" in stage.text()


async def test_6_cancelling_a_holder_that_runs_is_asked_about(held: MockServer, clock: FrozenClock) -> None:
    async with staged(held, clock) as stage:
        await stage.press("4", "down", "down", "c")
        await stage.until(lambda: "Cancel 1 task?" in stage.text())

        assert stage.asked("actions") == []


async def test_a_holder_that_is_gone_is_said_to_be(held: MockServer, clock: FrozenClock) -> None:
    del held.tasks[uuid(990)]
    async with staged(held, clock) as stage:
        await stage.press("4", "p")

        assert "could not pause: Task not found: there is no such task" in stage.text()


async def test_a_free_target_has_nothing_to_act_on(held: MockServer, clock: FrozenClock) -> None:
    async with staged(held, clock) as stage:
        await stage.press("4", *["down"] * 5, "c")

        assert "no task is highlighted" in stage.text()
        assert stage.asked("get") == []


async def test_9_the_filter_is_the_same_language(held: MockServer, clock: FrozenClock) -> None:
    async with staged(held, clock) as stage:
        await stage.press("4", "slash", *"room:lab", "enter")
        assert "lab:stage" in stage.text()
        assert "cam-2" not in stage.text()
        assert "2 of 8, 2 held" in stage.text()

        await stage.press("slash", *" status:flying", "enter")
        assert 'there is no status "flying"' in stage.text()
        assert "lab:stage" in stage.text()

        await stage.press("escape", "escape")
        assert "cam-2" in stage.text()


async def test_no_target_says_what_to_type_next(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("4")
        assert "--target cam-1" in stage.text()

        server.targets["1"] = HELD
        server.tasks[uuid(7)] = task(7)
        server.push_topic("targets")
        await stage.press("slash", *"zebra", "enter")
        assert "No target matches zebra" in stage.text()


@pytest.mark.parametrize(("key", "topic"), [("3", "workers"), ("4", "targets"), ("5", "schedules"), ("8", "limits")])
async def test_7_of_more_than_the_server_shows_all_are_counted(
    held: MockServer, clock: FrozenClock, key: str, topic: str
) -> None:
    async with staged(held, clock) as stage:
        await stage.press(key)
        table = stage.app.model.table(topic)
        assert table is not None
        table.total = 12_028
        await stage.pass_time(1)

        assert "of 12,028" in stage.line_of(f"{key} {topic.capitalize()}")
