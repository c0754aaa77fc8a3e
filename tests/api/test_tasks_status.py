"""`PATCH /v1/tasks/{id}` with a status: what the run and the version that it names do, and who is told what."""

from uuid import uuid4

import httpx
import pytest

from tests.api.rooms import Room, make_room, problem


async def requeued(root: httpx.AsyncClient, mine: Room, theirs: Room) -> str:
    """Return a task whose first run my worker had, and whose second run theirs has."""
    url = f"/v1/rooms/lab/tasks/{mine.job}"
    task = (await root.post(url, json={"payload": {"n": 1}, "max_requeues": 1})).json()["id"]
    assert (await mine.claim())["task"]["id"] == task
    taken = await root.post(f"/v1/tasks/{task}/runs/0/exception", json={"reason": "intermittent-task"})
    assert taken.json()["status"] == "pending"
    assert (await theirs.claim())["task"]["id"] == task
    return str(task)


async def joined(client: httpx.AsyncClient, room: Room) -> Room:
    """Return the same room as another user's worker serves it."""
    schema = (await client.get(f"/v1/rooms/lab/jobs/{room.job}")).json()["schema"]
    made = await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "schema": schema})
    assert made.status_code == 200
    return Room(client, "lab", room.job, made.json()["worker_id"])


@pytest.mark.parametrize("status", ["running", "completed", "failed", "cancelled"])
async def test_who_lost_a_task_gets_a_conflict_and_who_never_had_it_is_forbidden(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, bob: httpx.AsyncClient, status: str
):
    """Z18, G3: an older client, which names no run, takes a 403 as the end of its login."""
    mine = await make_room(alice)
    task = await requeued(root, mine, await joined(bob, mine))
    stranger = await root.post("/v1/tokens", json={"name": "eve"})
    before = await mine.get(task)

    lost = await alice.patch(f"/v1/tasks/{task}", json={"status": status})
    fenced = await alice.patch(f"/v1/tasks/{task}", json={"status": status, "run_id": 0})
    never = await alice.patch(
        f"/v1/tasks/{task}",
        json={"status": status},
        headers={"Authorization": f"Bearer {stranger.json()['token']}"},
    )

    assert (lost.status_code, problem(lost)) == (409, "stale-run")
    assert (fenced.status_code, problem(fenced)) == (409, "stale-run")
    assert (never.status_code, problem(never)) == (403, "forbidden")
    assert await mine.get(task) == before


async def test_a_cancel_that_names_a_run_which_is_over_changes_nothing(lab: Room):
    """G3: not even the submitter's, whose worker it was."""
    url = f"/v1/rooms/lab/tasks/{lab.job}"
    task = (await lab.client.post(url, json={"payload": {"n": 1}, "max_requeues": 1})).json()["id"]
    await lab.claim()
    await lab.client.post(f"/v1/tasks/{task}/runs/0/exception", json={"reason": "worker-shutdown"})
    waiting = await lab.client.patch(f"/v1/tasks/{task}", json={"status": "cancelled", "run_id": 0})
    await lab.claim()

    late = await lab.client.patch(f"/v1/tasks/{task}", json={"status": "cancelled", "run_id": 0})
    current = await lab.client.patch(f"/v1/tasks/{task}", json={"status": "cancelled", "run_id": 1})

    assert (waiting.status_code, problem(waiting)) == (409, "stale-run")
    assert (late.status_code, problem(late)) == (409, "stale-run")
    assert (current.status_code, current.json()["status"]) == (200, "cancelled")


async def test_a_status_acts_only_on_the_version_that_it_names(lab: Room):
    """Z7: as the verbs do."""
    task = await lab.submit()
    stale = {"if_version": task["version"] + 7}

    cancelled = await lab.client.patch(f"/v1/tasks/{task['id']}", json={"status": "cancelled", **stale})
    claimed = (await lab.claim())["task"]
    started = await lab.client.patch(f"/v1/tasks/{task['id']}", json={"status": "running", **stale})
    good = await lab.client.patch(
        f"/v1/tasks/{task['id']}", json={"status": "running", "if_version": claimed["version"]}
    )

    for answer in (cancelled, started):
        assert (answer.status_code, problem(answer)) == (409, "task-conflict")
    assert (good.status_code, good.json()["status"]) == (200, "running")


async def test_a_status_of_a_task_that_is_not_there_is_not_found(lab: Room):
    for body in ({"status": "running"}, {"status": "pending"}, {"status": "cancelled", "run_id": 3}, {"priority": 1}):
        answer = await lab.client.patch(f"/v1/tasks/{uuid4()}", json=body)
        assert (answer.status_code, problem(answer)) == (404, "task-not-found")
