"""The schedules' pane: when each is next, what became of the last task, and pause, resume and run now (E10)."""

import httpx
import pytest

from tests.tui.happenings import schedule, schedules_tick
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.real_server import JOB, client, link, register, seen, up
from tests.tui.scene import uuid
from tests.tui.stage import staged
from treadle_server.testing import serve
from treadle_tui.core.state.model import Model


@pytest.fixture
def ticking(server: MockServer) -> MockServer:
    schedules_tick(server)
    return server


async def test_what_is_next_stands_first_and_tells_when_and_what_became_of_the_last_task(
    ticking: MockServer, clock: FrozenClock
) -> None:
    async with staged(ticking, clock) as stage:
        await stage.press("5")

        lines = [line for line in stage.lines() if "room_42:" in line or "lab:" in line]
        names = [line.split("│")[1].replace(">", "").split()[0] for line in lines]
        assert names[:2] == ["lab:sync", "room_42:rdf"]
        assert "1 paused, 1 late" in stage.text()
        line = next(line for line in stage.lines() if "lab:sync" in line)
        assert "! late" in line
        assert "5m00 ago" in line
        assert "○ pending" in line


async def test_the_next_tick_comes_nearer_by_the_clock_alone(ticking: MockServer, clock: FrozenClock) -> None:
    async with staged(ticking, clock) as stage:
        await stage.press("5")
        assert "in 20s" in stage.text()
        await stage.pass_time(5)
        assert "in 15s" in stage.text()


async def test_a_payload_that_is_too_large_for_a_list_is_said_to_be_large(
    ticking: MockServer, clock: FrozenClock
) -> None:
    row = next(iter(ticking.schedules.values()))
    row |= {"payload": {}, "left_out": ["payload"]}

    async with staged(ticking, clock, size=(200, 50)) as stage:
        await stage.press("5")

        line = next(line for line in stage.lines() if f"{row['room_id']}:{row['name']}" in line)
        assert "large" in line


async def test_enter_opens_the_last_task(ticking: MockServer, clock: FrozenClock) -> None:
    async with staged(ticking, clock) as stage:
        await stage.press("5", "enter")

        assert uuid(101) in stage.text()
        await stage.press("escape")
        assert "5 Schedules" in stage.text()


async def test_6_pause_resume_and_run_now_and_a_pause_is_taken_back(ticking: MockServer, clock: FrozenClock) -> None:
    async with staged(ticking, clock) as stage:
        await stage.press("5", "down", "p")
        await stage.until(lambda: "paused rdf" in stage.text())
        await stage.press("u")
        await stage.until(lambda: "undone: resumed rdf" in stage.text())
        await stage.press("n")
        await stage.until(lambda: "submitted a task of rdf" in stage.text())
        await stage.press("r")
        await stage.until(lambda: "rdf was not paused" in stage.text())

        asked = [(one["room"], one["name"], one["action"]) for one in stage.asked("schedule")]
        assert asked == [("room_42", "rdf", verb) for verb in ("pause", "resume", "run", "resume")]


async def test_what_the_server_refuses_is_said(ticking: MockServer, clock: FrozenClock) -> None:
    ticking.refuses["schedule"] = "task-conflict"
    async with staged(ticking, clock) as stage:
        await stage.press("5", "n")
        await stage.until(lambda: "could not run: Task conflict" in stage.text())


async def test_6_a_read_only_dashboard_and_one_without_a_connection_change_nothing(
    ticking: MockServer, clock: FrozenClock
) -> None:
    async with staged(ticking, clock, read_only=True) as stage:
        await stage.press("5", "p")
        assert "this dashboard is read-only" in stage.text()
        assert "run now" not in stage.lines()[-1]
    async with staged(ticking, clock) as stage:
        await stage.press("5")
        ticking.drop()
        await stage.press("p")
        assert "no connection" in stage.text()

    assert stage.asked("schedule") == []


async def test_a_late_schedule_wants_a_look_and_enter_goes_there(server: MockServer, clock: FrozenClock) -> None:
    server.schedules["1"] = schedule(1, "stuck", due=-130, status=None)
    server.schedules["2"] = schedule(2, "held", due=-90, status="paused")
    server.schedules["3"] = schedule(3, "well", due=-30, status="running")
    async with staged(server, clock) as stage:
        await stage.press("exclamation_mark")

        lines = [" ".join(line.split()) for line in stage.lines() if " schedule " in line]
        assert "✗ bad schedule stuck due 2m10 ago, no task was submitted" in lines[0]
        assert "! look schedule held due 1m30 ago, its last task is paused" in lines[1]
        assert len(lines) == 2
        while "schedule" not in stage.highlighted():
            await stage.press("down")
        await stage.press("enter")
        assert "> @global:stuck" in stage.text() or "> room_42:stuck" in stage.text()


async def test_a_schedule_that_changed_is_among_the_events_and_enter_goes_to_it(
    ticking: MockServer, clock: FrozenClock
) -> None:
    async with staged(ticking, clock) as stage:
        await stage.press("6")
        row = ticking.schedules["2"]
        ticking.happen("schedule.updated", schedule=row, deleted=False)
        await stage.settle()
        assert "schedule   on" in stage.text()
        await stage.press("enter")
        assert "5 Schedules" in stage.text()


async def test_no_schedule_says_what_to_type_next(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("5")
        assert "treadle schedules set nightly" in stage.text()

        server.schedules["1"] = schedule(1, "tidy", due=5)
        server.push_topic("schedules")
        await stage.press("slash", *"zebra", "enter")
        assert "No schedule matches zebra" in stage.text()


async def test_a_real_server_shows_a_schedule_and_runs_it_now_e10() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        await pilot.press("5")
        body = {"job": JOB, "cron": "0 3 * * *", "zone": "Europe/Berlin"}
        (await http.put("/v1/rooms/room_42/schedules/nightly", json=body)).raise_for_status()
        await seen(pilot, lambda shown: "room_42:nightly" in shown and "0 3 * * *" in shown)

        await pilot.press("n")
        await seen(pilot, lambda shown: "submitted a task of nightly" in shown and "○ pending" in shown)
        await pilot.press("p")
        await seen(pilot, lambda shown: "‖ paused" in shown)
        found: httpx.Response = await http.get("/v1/rooms/room_42/schedules/nightly")
        assert found.json()["paused"]
