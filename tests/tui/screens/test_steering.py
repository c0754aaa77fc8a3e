"""Verbs on many tasks: what is marked, and what became of each (behaviour 6)."""

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import task, uuid
from tests.tui.stage import slow, staged, typed


async def test_6_all_that_match_are_marked_and_unmarked(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "asterisk")
        assert "829 marked" in stage.text()
        assert stage.asked("freeze")[-1]["order"] == "position"
        await stage.press("asterisk")
        assert "marked" not in stage.text()


async def test_6_all_that_match_are_marked_though_the_filter_moves_on_before_the_server_names_them(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "filter created:<30d")
        async with slow(stage):
            await stage.press("asterisk")
            await stage.pass_time(11)

        assert "829 marked" in stage.text()


async def test_6_what_was_named_of_a_list_that_was_left_is_not_marked_in_the_next(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        async with slow(stage):
            await stage.press("asterisk")
            stage.app.go("filter", "status:pending")

        assert "marked" not in stage.text()


async def test_6_more_than_can_be_named_at_once_are_marked_in_part_and_that_is_said(
    server: MockServer, clock: FrozenClock
) -> None:
    server.freezes = 300

    async with staged(server, clock) as stage:
        await stage.press("2", "asterisk")
        assert "300 marked" in stage.text()
        assert "marked only the first 300: the most that can be marked at once" in stage.text()


async def test_6_of_more_failed_tasks_than_are_changed_at_once_the_question_says_that_there_are_more(
    server: MockServer, clock: FrozenClock
) -> None:
    failed = [task(number, status="failed") for number in range(5_000, 5_120)]
    server.tasks |= {row["id"]: row for row in failed}
    server.freezes = 110

    async with staged(server, clock) as stage:
        await stage.press("f")
        assert "Resume 110 tasks?" in stage.text()
        assert "There are more" in stage.text()

        await stage.press("escape")
        server.freezes = 10_000
        await stage.press("f")
        assert "Resume 121 tasks?" in stage.text()
        assert "There are more" not in stage.text()


async def test_6_where_every_task_was_done_nothing_is_said_of_others(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "p", "R")

        assert "What was done  2 tasks ─" in stage.text()


async def test_6_each_task_of_an_action_is_looked_through(server: MockServer, clock: FrozenClock) -> None:
    gone = list(server.tasks)[1]

    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "c")
        server.tasks[gone]["version"] += 1
        del server.tasks[gone]
        await stage.press("y")
        assert "cancelled 1 task, skipped 1: it has changed since" in stage.text()
        await stage.press("R")

        assert "What was done  1 task, 1 skipped" in stage.text()
        assert "it has changed since" in next(line for line in stage.lines() if gone in line)
        assert "cancelled; it was running" in next(line for line in stage.lines() if uuid(1) in line)
        await stage.press("escape")
        assert "What was done" not in stage.text()


async def test_6_why_a_task_was_left_alone_is_told_whole_on_a_narrow_screen(
    server: MockServer, clock: FrozenClock
) -> None:
    gone = list(server.tasks)[1]

    async with staged(server, clock, size=(60, 20)) as stage:
        await stage.press("2", "space", "space")
        server.tasks[gone]["version"] += 1
        del server.tasks[gone]
        await stage.press("p", "R")

        at = next(place for place, line in enumerate(stage.lines()) if gone in line)
        told = " ".join(line.strip("│ ") for line in stage.lines()[at : at + 2])
        assert "it has changed since" in told


async def test_6_an_undo_that_the_server_did_not_take_can_be_tried_again(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "p")
        server.refuses["actions"] = "too-many-requests"
        await stage.press("u")
        assert "could not undo" in stage.text()
        del server.refuses["actions"]
        await stage.press("u")

        assert "undone: resumed 2 tasks" in stage.text()


async def test_6_an_undo_that_was_pressed_while_there_was_no_server_can_be_tried_again(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "p")
        server.drop()
        await stage.press("u")
        assert "no connection" in stage.text()
        server.open()
        await stage.settle()
        await stage.press("u")

        assert "undone: resumed 2 tasks" in stage.text()


async def test_7_of_a_verb_whose_answer_was_lost_it_is_not_said_that_it_could_not_be_done(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        async with slow(stage):
            await stage.press("2", "space", "space", "p")
            server.drop()

        assert "pause was sent, but the connection broke before the answer came" in stage.text()


async def test_6_an_undo_says_how_many_and_which_it_could_not_bring_back(
    server: MockServer, clock: FrozenClock
) -> None:
    key = list(server.tasks)[1]

    async with staged(server, clock) as stage:
        await stage.press("2", *["space"] * 3, "p")
        # Its worker has stopped it, and then somebody was there.
        server.tasks[key]["version"] += 2
        await stage.press("u")

        assert f"undone: resumed 2 of 3 tasks, but not {key[-8:]}: it has changed since" in stage.text()
        await stage.press("R")
        assert "it has changed since" in next(line for line in stage.lines() if key in line)


async def test_6_what_another_paused_is_not_resumed_by_an_undo_of_ones_own_pause(
    server: MockServer, clock: FrozenClock
) -> None:
    job = next(iter(server.jobs.values()))
    job["paused"] = True
    async with staged(server, clock) as stage:
        await typed(stage, f"pause queue {job['full_name']}")
        assert f"{job['full_name']} was already paused" in stage.text()
        await stage.press("u")

        assert "nothing to undo" in stage.text()
        assert [request["paused"] for request in stage.asked("job")] == [True]
