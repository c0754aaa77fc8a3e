"""F2: the flow's screen: a tree, live, and verbs for all of it."""

import re
from collections.abc import AsyncIterator

import pytest

from tests.tui.happenings import FLOW, only_tasks_of_a_flow
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import ROTATE
from tests.tui.stage import Stage, slow, staged, typed


@pytest.fixture
async def stage(server: MockServer, clock: FrozenClock) -> AsyncIterator[Stage]:
    """A task of the flow, and from there the flow."""
    only_tasks_of_a_flow(server)
    async with staged(server, clock) as stage:
        await stage.press("2", "enter", "T")
        yield stage


def statuses(stage: Stage) -> list[str]:
    return [stage.server.tasks[key]["status"] for key in stage.server.flows[FLOW]["tasks"]]


def change(stage: Stage, key: str, status: str) -> None:
    """Let a task change, and its queue's counts with it."""
    stage.server.tasks[key]["status"] = status
    job = next(job for job in stage.server.jobs.values() if job["full_name"] == ROTATE)
    job["counts"] = {**job["counts"], status: job["counts"].get(status, 0) + 1}
    stage.server.push_topic("counts")


async def test_f2_a_key_leads_from_a_task_to_its_flow_with_the_cursor_at_the_task(stage: Stage) -> None:
    assert "movie" in stage.text()
    assert "70%" in stage.line_of("movie")
    assert "critical path 3 tasks" in stage.text()
    assert next(iter(stage.server.tasks))[-8:] in stage.highlighted()

    await stage.press("escape")
    assert "Payload" in stage.text()


async def test_f2_what_several_wait_for_is_drawn_once_and_the_critical_path_is_marked(stage: Stage) -> None:
    lines = [line for line in stage.lines() if "Rotate" in line or "RDF" in line or "billing " in line]

    assert sum("above" in line for line in lines) == 1
    assert [line.split("→")[1].split()[1] for line in lines if "→" in line] == ["blocked", "completed", "completed"]


async def test_f2_a_line_of_the_tree_ends_at_the_last_task_that_hangs_on_it(stage: Stage) -> None:
    tree = [match[1].rstrip() for line in stage.lines() if (match := re.match(r"│.{3}([ │├└]+)(?:Rotate|RDF) ", line))]

    assert tree == ["├", "│ ├", "│ ├", "│ └", "├", "│ ├", "│ └", "└", "  ├", "  └"]


async def test_f2_a_change_is_seen_without_a_key_and_nothing_is_asked_while_nothing_happens(stage: Stage) -> None:
    running = next(key for key, row in stage.server.tasks.items() if row["status"] == "running")
    assert len(stage.asked("get_flow")) == 1

    await stage.pass_time(1)
    assert len(stage.asked("get_flow")) == 1

    change(stage, running, "failed")
    await stage.settle()
    assert "2 failed" in stage.line_of("movie")
    assert len(stage.asked("get_flow")) == 2


async def test_f2_an_open_flow_is_read_anew_after_a_while_and_one_that_is_over_is_not(stage: Stage) -> None:
    await stage.pass_time(6)
    assert len(stage.asked("get_flow")) == 2

    for row in stage.server.tasks.values():
        row["status"] = "completed"
    await stage.pass_time(6)
    assert "100%" in stage.line_of("movie")
    before = len(stage.asked("get_flow"))
    await stage.pass_time(60)
    assert len(stage.asked("get_flow")) == before


async def test_f2_a_cancel_of_the_flow_asks_for_what_runs_and_is_undone_for_what_had_not_begun(stage: Stage) -> None:
    await stage.press("c")
    assert "Cancel 3 tasks?" in stage.text()
    await stage.press("y")
    assert statuses(stage)[5:] == ["cancelled", "completed", "cancelled", "cancelled", "cancelled"]

    await stage.press("u")
    assert statuses(stage)[5:] == ["cancelled", "completed", "pending", "cancelled", "pending"]


async def test_f2_a_pause_and_a_resume_are_for_all_of_the_flow(stage: Stage) -> None:
    before = statuses(stage)
    await stage.press("p")
    assert statuses(stage).count("paused") == 3

    await stage.press("r")
    assert statuses(stage) == [("pending" if one in {"running", "blocked"} else one) for one in before]


async def test_f2_rerun_failed_runs_first_what_failed_and_then_what_was_cancelled_with_it(stage: Stage) -> None:
    await stage.press("f")

    [asked] = stage.asked("actions")
    of_flow = stage.server.flows[FLOW]["tasks"]
    assert (asked["action"], asked["ids"]) == ("rerun", [of_flow[4], of_flow[8]])


async def test_f2_over_a_hundred_tasks_the_count_is_typed(stage: Stage) -> None:
    for number in range(120):
        key = f"019aa5c0-0000-7000-8000-{number:012x}"
        row = next(iter(stage.server.tasks.values()))
        stage.server.tasks[key] = {**row, "id": key, "status": "pending"}
        stage.server.flows[FLOW]["tasks"].append(key)

    await stage.press("p")

    assert "type 123" in stage.text()


async def test_f2_a_read_only_dashboard_shows_a_flow_and_acts_on_nothing(
    server: MockServer, clock: FrozenClock
) -> None:
    only_tasks_of_a_flow(server)
    async with staged(server, clock, read_only=True) as stage:
        await typed(stage, f"flow {FLOW}")
        assert "movie" in stage.text()
        assert "keys act" not in stage.text()
        await stage.press("c", "p", "r", "f")
        assert not stage.asked("actions")
        assert not stage.asked("freeze")


async def test_f2_a_flow_is_shown_by_its_id_and_one_that_is_not_there_is_told(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, "flow x")
        assert "invalid flow id" in stage.text()
        await stage.press("escape")
        await typed(stage, f"flow {FLOW}")
        assert "there is no flow" in stage.text()
        await stage.pass_time(1)
        assert len(stage.asked("get_flow")) == 1
        await stage.press("escape", "2", "enter", "T")
        assert "this task belongs to no flow" in stage.text()


async def test_f2_a_flow_is_shown_by_a_part_of_its_id_as_a_task_is(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await typed(stage, f"flow {FLOW[:8]}")
        assert stage.asked("watch")[-1]["window"]["filter"] == {"flow": FLOW[:8]}

    only_tasks_of_a_flow(server)
    for part in (FLOW[:8], FLOW.replace("-", "")[:12].upper(), FLOW[-8:]):
        async with staged(server, clock) as stage:
            await typed(stage, f"flow {part}")
            assert "critical path" in stage.text()


async def test_f2_a_flow_that_is_no_longer_there_is_shown_as_it_was_and_asked_for_no_more(stage: Stage) -> None:
    flow, running = stage.server.flows.pop(FLOW), next(iter(stage.server.tasks))
    await stage.pass_time(6)
    before, asked = stage.line_of("● running"), len(stage.asked("get_flow"))

    for _ in range(3):
        change(stage, running, "failed")
        await stage.pass_time(20)

    assert "this flow is gone: it was pruned, this token can't see it, or" in stage.text()
    assert stage.line_of("● running") == before
    assert stage.app.screen.has_class("-stale")
    assert len(stage.asked("get_flow")) == asked

    stage.server.drop()
    stage.server.flows[FLOW] = flow
    stage.server.open()
    await stage.pass_time(1)
    assert "this flow is gone" not in stage.text()
    assert "2 failed" in stage.line_of("movie")
    await stage.pass_time(1)
    assert not stage.app.screen.has_class("-stale")


async def test_f2_a_server_that_tells_of_no_flow_just_now_is_asked_a_while_later(stage: Stage) -> None:
    running = next(key for key, row in stage.server.tasks.items() if row["status"] == "running")
    stage.server.refuses["get_flow"] = "store-unavailable"
    for _ in range(3):
        change(stage, running, "failed")
        await stage.pass_time(1)
    assert len(stage.asked("get_flow")) == 2
    assert "not refreshed: Store unavailable" in stage.text()

    del stage.server.refuses["get_flow"]
    await stage.pass_time(5)
    assert "not refreshed" not in stage.text()
    assert "2 failed" in stage.line_of("movie")


async def test_f2_a_task_opened_from_its_flow_leads_back_to_the_task_that_one_came_from(stage: Stage) -> None:
    first = next(iter(stage.server.tasks))
    await stage.press("up", "enter")
    assert first not in stage.text()

    await stage.press("escape", "escape")

    assert first in stage.text()
    assert "Loading" not in stage.text()


async def test_f2_a_flow_of_thousands_says_that_only_the_first_are_shown(stage: Stage) -> None:
    flow = stage.server.flows[FLOW]
    for number in range(1990):
        key = f"019aa5c0-0000-7000-8000-{number:012x}"
        stage.server.tasks[key] = {**next(iter(stage.server.tasks.values())), "id": key}
        flow["tasks"].append(key)
    flow["is_capped"] = True
    await stage.pass_time(6)

    assert "the first 2,000" in stage.text()
    await stage.press("G")
    assert "000007c5" in stage.highlighted()


async def test_f2_keys_that_come_before_the_task_does_act_on_what_the_list_had_of_it(
    server: MockServer, clock: FrozenClock
) -> None:
    only_tasks_of_a_flow(server)
    async with staged(server, clock) as stage:
        await stage.press("2")
        async with slow(stage):
            await stage.press("enter", "T")

        assert "movie" in stage.text()
        assert "belongs to no flow" not in stage.text()
