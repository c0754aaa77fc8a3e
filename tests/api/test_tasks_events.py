"""What happened: to one task, and lately on the server."""

from datetime import datetime
from typing import Any
from uuid import uuid4

from tests.api.rooms import Room, problem
from treadle.wire.server import RecentEvents
from treadle.wire.tasks import TaskEvent
from treadle_server.store.read.history import Happening


async def events(lab: Room, task_id: str) -> list[TaskEvent]:
    answer = await lab.client.get(f"/v1/tasks/{task_id}/events")
    assert answer.status_code == 200, answer.text
    found = [TaskEvent.model_validate(item) for item in answer.json()["items"]]
    assert [one.at for one in found] == sorted(one.at for one in found)
    return found


def kinds(found: list[TaskEvent]) -> list[Any]:
    return [one.kind if one.status is None else (one.kind, one.status) for one in found]


async def test_a_tasks_life_is_told_from_its_runs_and_its_row(lab: Room):
    """TUI.md, the tab Events: a failure, a retry by hand, a completion; and no time that is not known."""
    task = await lab.submit()
    await lab.start()
    await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/failed", json={"error": "boom"})
    failed = await events(lab, task["id"])
    await lab.client.post(f"/v1/tasks/{task['id']}/resume")
    resumed = await events(lab, task["id"])
    await lab.start()
    await lab.client.post(f"/v1/tasks/{task['id']}/runs/1/completed")
    done = await events(lab, task["id"])

    first = ["created", "claimed", "started", ("ended", "failed")]
    assert kinds(failed) == [*first, "failed"]
    assert (failed[3].error, failed[3].run_id, failed[3].worker_id) == ("boom", 0, lab.worker_id)
    assert kinds(resumed) == [*first, ("changed", "pending")]
    assert kinds(done) == [*first, "claimed", "started", ("ended", "completed"), "completed"]
    shown = await lab.get(task["id"])
    told = {one.kind: one.at for one in done}
    assert [told["created"], told["started"], told["completed"]] == [
        datetime.fromisoformat(shown[name]) for name in ("created_at", "started_at", "completed_at")
    ]


async def test_what_waits_tells_when_it_is_due_tried_again_paused_or_must_be_over(lab: Room):
    later = await lab.submit(delay=3600, deadline="2999-01-01T00:00:00Z")
    again = await lab.submit(1, max_retries=1, retry_base=3600)
    await lab.start()
    await lab.client.post(f"/v1/tasks/{again['id']}/runs/0/failed", json={"error": "boom"})
    paused = await lab.submit(2)
    await lab.client.post(f"/v1/tasks/{paused['id']}/pause")
    settled = await lab.submit(3)
    await lab.client.post(f"/v1/tasks/{settled['id']}/pause")
    await lab.client.post(f"/v1/tasks/{settled['id']}/resolve", json={"status": "failed", "error": "gave up"})

    assert kinds(await events(lab, later["id"])) == ["created", "due", "deadline"]
    assert kinds(await events(lab, again["id"])) == ["created", "claimed", "started", ("ended", "failed"), "retry"]
    assert kinds(await events(lab, paused["id"])) == ["created", "paused"]
    assert kinds(await events(lab, settled["id"])) == ["created", ("resolved", "failed"), "failed"]


async def test_a_running_task_that_is_asked_to_stop_says_since_when(lab: Room):
    task = await lab.submit()
    await lab.start()
    assert kinds(await events(lab, task["id"])) == ["created", "claimed", "started"]

    await lab.client.post(f"/v1/tasks/{task['id']}/pause")

    assert kinds(await events(lab, task["id"])) == ["created", "claimed", "started", "pausing"]


async def test_a_task_that_does_not_exist_has_no_events(lab: Room):
    answer = await lab.client.get(f"/v1/tasks/{uuid4()}/events")

    assert (answer.status_code, problem(answer)) == (404, "task-not-found")


async def test_the_last_transitions_are_listed_and_narrowed(lab: Room):
    first, second = await lab.submit(), await lab.submit(1)
    await lab.client.post(f"/v1/tasks/{first['id']}/cancel")

    async def listed(**query: Any) -> list[tuple[str, str]]:
        answer = (await lab.client.get("/v1/events", params=query)).json()
        items = RecentEvents.model_validate(answer).items
        return [(item["task"]["id"], item["task"]["status"]) for item in items if "task" in item]

    assert await listed() == [(first["id"], "pending"), (second["id"], "pending"), (first["id"], "cancelled")]
    assert await listed(task=first["id"].upper()) == [(first["id"], "pending"), (first["id"], "cancelled")]
    assert await listed(limit=1) == [(first["id"], "cancelled")]
    assert await listed(job=lab.job, room="lab", limit=2) == [(second["id"], "pending"), (first["id"], "cancelled")]
    assert await listed(room="den") == []


async def test_transitions_of_what_is_no_tasks_id_are_refused_and_not_none(lab: Room):
    answer = await lab.client.get("/v1/events", params={"task": "019aa5c0"})

    assert (answer.status_code, problem(answer)) == (422, "validation-error")
    assert answer.json()["detail"] == "task: '019aa5c0' is not a task id: write a UUID"


async def test_whoami_tells_whether_the_token_may_write(lab: Room):
    assert (await lab.client.get("/v1/whoami")).json()["may_write"] is True


def test_an_event_of_a_task_has_the_fields_that_its_model_documents():
    assert set(TaskEvent.model_fields) == set(Happening.__dataclass_fields__)
