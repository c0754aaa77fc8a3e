"""The targets, the events and a task on a real server: what it tells is what they show."""

import asyncio
import json
from typing import Any

import httpx
from textual import events

from tests.tui.real_server import JOB, client, link, register, seen, text, up
from treadle_server.testing import serve
from treadle_tui.core.state.model import Model


async def submit(http: httpx.AsyncClient, **more: Any) -> str:
    answer = await http.post(f"/v1/rooms/room_42/tasks/{JOB}", json={"payload": {"angle": 45}, **more})
    answer.raise_for_status()
    return str(answer.json()["id"])


async def claimed(http: httpx.AsyncClient) -> tuple[str, str]:
    """A worker of its own, and the task that it has claimed."""
    worker = (await http.post("/v1/workers", json={"name": "hand-made"})).raise_for_status().json()["id"]
    body = {"category": "modifiers", "name": "Rotate", "schema": {}, "worker_id": worker}
    (await http.put("/v1/rooms/@global/jobs", json=body)).raise_for_status()
    claim = await http.post("/v1/tasks/claim", json={"worker_id": worker})
    return worker, str(claim.raise_for_status().json()["task"]["id"])


async def running(http: httpx.AsyncClient) -> str:
    """A task that a worker of its own has begun."""
    await register(http)
    await submit(http)
    _, key = await claimed(http)
    (await http.post(f"/v1/tasks/{key}/runs/0/started")).raise_for_status()
    return key


async def test_events_of_before_and_of_now_are_shown() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        before = await submit(http)
        await seen(pilot, lambda shown: before[-8:] in shown)

        await pilot.press("6")
        await seen(pilot, lambda shown: "6 Events" in shown and before[-8:] in shown)
        now = await submit(http)
        await seen(pilot, lambda shown: now[-8:] in shown and "new → ○ pending" in shown)
        (await http.post(f"/v1/tasks/{now}/cancel")).raise_for_status()
        await seen(pilot, lambda shown: "pending → ⊘ cancelled" in shown)


async def test_a_target_is_held_by_what_was_claimed_and_its_holder_is_opened_and_cancelled() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        first = await submit(http, target="cam-1")
        second = await submit(http, target="cam-1")
        await pilot.press("4")
        await seen(pilot, lambda shown: "room_42:cam-1" in shown and "○ free" in shown)

        _, task_id = await claimed(http)
        assert task_id == first
        await seen(pilot, lambda shown: "◐ claimed" in shown and first[-8:] in shown and second[-8:] in shown)

        await pilot.press("enter")
        # Until it is known how much room the rail has, its runs are a tab of their own.
        await seen(pilot, lambda shown: "claimed by hand-made" in shown and "┐  Error [Payload]" in shown)
        assert first in text(pilot)
        await pilot.press("shift+tab", "shift+tab")
        await seen(pilot, lambda shown: "[Events]" in shown and "created" in shown)
        await pilot.press("escape", "c")
        await seen(pilot, lambda shown: "Cancel 1 task?" in shown)
        await pilot.press("y")
        await seen(pilot, lambda shown: "◌ stopping" in shown)


async def test_progress_and_logs_of_a_running_task_come_as_they_are_reported() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        await submit(http)
        _, key = await claimed(http)
        run = f"/v1/tasks/{key}/runs/0"
        (await http.post(f"{run}/started")).raise_for_status()
        await seen(pilot, lambda shown: "● running" in shown)
        await pilot.press("2", "enter")
        await seen(pilot, lambda shown: "[Logs]" in shown)

        (await http.post(f"{run}/progress", json={"share": 0.5, "message": "half"})).raise_for_status()
        (await http.post(f"{run}/logs", json={"lines": [{"message": "frame 3 turned"}]})).raise_for_status()

        async with asyncio.timeout(60):
            await seen(pilot, lambda shown: "50% half" in shown and "frame 3 turned" in shown)


async def test_the_logs_of_a_queues_tasks_come_as_one_as_they_are_written() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        for number in range(2):
            await submit(http)
            _, key = await claimed(http)
            run = f"/v1/tasks/{key}/runs/0"
            (await http.post(f"{run}/started")).raise_for_status()
            logged = {"lines": [{"message": f"opened camera {number}"}]}
            (await http.post(f"{run}/logs", json=logged)).raise_for_status()
        await seen(pilot, lambda shown: "● running" in shown)

        await pilot.press("l")
        await seen(pilot, lambda shown: f"Logs  job:{JOB}" in shown and "camera 0" in shown and "camera 1" in shown)
        (await http.post(f"{run}/logs", json={"lines": [{"message": "frame 3 turned"}]})).raise_for_status()

        async with asyncio.timeout(60):
            await seen(pilot, lambda shown: "frame 3 turned" in shown and "3 of 3 lines" in shown)


async def test_f2_a_flow_is_shown_follows_what_happens_and_is_run_again_after_a_cancel() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        items = [
            {"job": JOB, "payload": {}, "ref": "a", "flow_name": "movie"},
            {"job": JOB, "payload": {}, "depends_on": {"x": "a"}},
        ]
        answer = await http.post("/v1/rooms/room_42/tasks", json={"tasks": items})
        first, last = answer.raise_for_status().json()["tasks"]
        await pilot.press("2")
        await seen(pilot, lambda shown: first["id"][-8:] in shown)
        await pilot.press("enter", "T")
        await seen(pilot, lambda shown: "Flow  movie" in shown and "○ 1 pending ◇ 1 blocked" in shown)

        (await http.post(f"/v1/tasks/{first['id']}/cancel")).raise_for_status()
        await seen(pilot, lambda shown: "⊘ 2 cancelled" in shown and "it depends on" in shown)

        (await http.post(f"/v1/tasks/{first['id']}/rerun")).raise_for_status()
        await seen(pilot, lambda shown: "○ 1 pending" in shown)
        await pilot.press("f")
        await seen(pilot, lambda shown: "◇ 1 blocked" in shown)
        assert last["id"][-8:] in text(pilot)
        await pilot.press("p")
        await seen(pilot, lambda shown: "‖ 2 paused" in shown)
        await pilot.press("u")
        await seen(pilot, lambda shown: "○ 1 pending ◇ 1 blocked" in shown)


async def test_6_a_pause_of_what_ran_is_undone_once_its_worker_has_stopped_it() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        key = await running(http)
        await pilot.press("2")
        await seen(pilot, lambda shown: "● running" in shown)

        await pilot.press("p")
        await seen(pilot, lambda shown: "asked 1 task to pause" in shown)
        (await http.post(f"/v1/tasks/{key}/runs/0/paused")).raise_for_status()
        await seen(pilot, lambda shown: "‖ paused" in shown)
        await pilot.press("u")

        await seen(pilot, lambda shown: "undone: resumed 1 task" in shown)
        assert (await http.get(f"/v1/tasks/{key}")).json()["status"] == "pending"


async def test_6_a_pause_that_is_under_way_is_not_undone_yet_and_can_be_once_its_worker_has_stopped_it() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        key = await running(http)
        waits = await submit(http)
        await pilot.press("2")
        await seen(pilot, lambda shown: "● running" in shown and waits[-8:] in shown)

        await pilot.press("asterisk")
        await seen(pilot, lambda shown: "2 marked" in shown)
        await pilot.press("p")
        await seen(pilot, lambda shown: "asked 2 tasks to pause" in shown)
        await pilot.press("u")
        said = f"undone: resumed 1 of 2 tasks, but not {key[-8:]}: its worker had not stopped it yet"
        await seen(pilot, lambda shown: said in shown and "u undo" in shown)
        assert (await http.get(f"/v1/tasks/{waits}")).json()["status"] == "pending"

        (await http.post(f"/v1/tasks/{key}/runs/0/paused")).raise_for_status()
        await pilot.press("u")
        await seen(pilot, lambda shown: "undone: resumed 1 task" in shown)
        assert (await http.get(f"/v1/tasks/{key}")).json()["status"] == "pending"


async def test_6_a_pause_of_what_a_worker_took_since_it_was_marked_is_undone_once_it_has_stopped() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        key = await submit(http)
        await pilot.press("2", "slash", *"status:pending", "enter")
        await seen(pilot, lambda shown: key[-8:] in shown and "1 of 1" in shown)
        await pilot.press("asterisk")
        await seen(pilot, lambda shown: "1 marked" in shown)
        await claimed(http)
        (await http.post(f"/v1/tasks/{key}/runs/0/started")).raise_for_status()
        await seen(pilot, lambda shown: "no longer here" in shown)

        await pilot.press("p")
        await seen(pilot, lambda shown: "paused 1 task" in shown)
        (await http.post(f"/v1/tasks/{key}/runs/0/paused")).raise_for_status()
        await pilot.press("u")

        await seen(pilot, lambda shown: "undone: resumed 1 task" in shown)


async def test_6_a_resume_is_undone_also_where_a_worker_took_the_task_at_once() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        keys = [await submit(http) for _ in range(3)]
        for key in keys:
            (await http.post(f"/v1/tasks/{key}/pause")).raise_for_status()
        await pilot.press("2")
        await seen(pilot, lambda shown: shown.count("‖ paused") == 3)
        await pilot.press("asterisk")
        await seen(pilot, lambda shown: "3 marked" in shown)

        await pilot.press("r")
        await seen(pilot, lambda shown: "resumed 3 tasks" in shown)
        worker, begun = await claimed(http)
        (await http.post(f"/v1/tasks/{begun}/runs/0/started")).raise_for_status()
        (await http.post("/v1/tasks/claim", json={"worker_id": worker})).raise_for_status()
        await seen(pilot, lambda shown: "● running" in shown and "◐ claimed" in shown)
        await pilot.press("u")

        await seen(pilot, lambda shown: "undone: paused 3 tasks" in shown)
        now = [(await http.get(f"/v1/tasks/{key}")).json() for key in keys]
        told = sorted((task["status"], task["cancel_requested"]) for task in now)
        assert told == [("claimed", True), ("paused", False), ("running", True)]


async def test_6_a_pause_that_somebody_else_has_asked_for_is_not_undone_by_who_asks_for_it_too() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        key = await running(http)
        await pilot.press("2")
        await seen(pilot, lambda shown: "● running" in shown)
        (await http.post(f"/v1/tasks/{key}/pause")).raise_for_status()
        await seen(pilot, lambda shown: "● pausing" in shown)

        await pilot.press("p")
        said = "asked 0 tasks to pause, skipped 1: somebody else has already asked it to pause"
        await seen(pilot, lambda shown: said in shown and "u undo" not in shown)
        await pilot.press("u")
        await seen(pilot, lambda shown: "nothing to undo" in shown)


async def test_m1_a_message_is_sent_to_the_task_that_waits_for_it_and_refusals_are_told() -> None:
    async with serve() as served, client(served) as http, up(Model(), link(served)) as pilot:
        await register(http)
        await submit(http)
        _, key = await claimed(http)
        waits = {"step": "approved", "seconds": 3600.0, "receives": True}
        (await http.post(f"/v1/tasks/{key}/runs/0/started")).raise_for_status()
        (await http.post(f"/v1/tasks/{key}/runs/0/suspended", json=waits)).raise_for_status()
        await pilot.press("2")
        await seen(pilot, lambda shown: key[-8:] in shown)
        await pilot.press("enter")
        await seen(pilot, lambda shown: "[Payload]" in shown)

        await pilot.press("m")
        await seen(pilot, lambda shown: "it waits for approved" in shown)
        pilot.app.post_message(events.Paste(json.dumps("x" * 100_000)))
        await pilot.press("enter")
        await seen(pilot, lambda shown: "could not send" in shown and "100,000" in shown)
        await pilot.press("ctrl+u", *"[7]", "enter")
        await seen(pilot, lambda shown: "sent approved to" in shown and "received" in shown)

        [step] = (await http.get(f"/v1/tasks/{key}/steps")).json()["items"]
        assert step["result"] == [7]
