"""`POST /v1/prune`, and what those who look on see of a removal (E12)."""

import httpx
import pytest

from tests.api.conftest import alice, lab, root, served, user
from tests.api.rooms import Room, problem
from tests.live.sockets import connected
from treadle_server.api import prune as prune_api
from treadle_server.testing import Served

__all__ = ["alice", "lab", "root", "served", "user"]

pytestmark = pytest.mark.anyio


async def cancelled(lab: Room, count: int) -> list[str]:
    ids = [(await lab.submit())["id"] for _ in range(count)]
    for task_id in ids:
        assert (await lab.client.post(f"/v1/tasks/{task_id}/cancel")).status_code == 200
    return ids


async def test_a_dry_run_says_what_would_go_by_job_and_status_and_a_removal_what_went_e12(
    root: httpx.AsyncClient, lab: Room
) -> None:
    ids = await cancelled(lab, 3)
    open_one = (await lab.submit())["id"]
    group = {"job": lab.job, "status": "cancelled", "tasks": 3}

    dry = await root.post("/v1/prune", json={"older_than": 0, "dry_run": True})
    assert dry.json() == {"dry_run": True, "tasks": 3, "groups": [group], "done": True}
    for none in ({"older_than": 3600}, {"older_than": 0, "status": ["failed", "completed"]}, {}):
        answer = await root.post("/v1/prune", json={**none, "dry_run": True})
        assert (answer.status_code, answer.json()["tasks"]) == (200, 0), none

    wet = await root.post("/v1/prune", json={"older_than": 0, "status": ["cancelled"]})
    assert wet.json() == {"dry_run": False, "tasks": 3, "groups": [group], "done": True}
    for task_id in ids:
        assert problem(await root.get(f"/v1/tasks/{task_id}")) == "task-not-found"
    assert (await lab.get(open_one))["status"] == "pending"
    assert (await root.get("/v1/stats")).json()["counts"] == {"pending": 1}


async def test_a_removal_that_takes_long_is_answered_in_parts_e12(
    root: httpx.AsyncClient, lab: Room, monkeypatch
) -> None:
    await cancelled(lab, 25)
    monkeypatch.setattr(prune_api, "PORTION_SECONDS", 0.0)

    parts = []
    while not (parts and parts[-1]["done"]):
        parts.append((await root.post("/v1/prune", json={"older_than": 0})).json())

    assert [part["tasks"] for part in parts] == [10, 10, 5, 0]
    assert parts[0]["groups"] == [{"job": lab.job, "status": "cancelled", "tasks": 10}]


REFUSED = (
    ({"status": ["running"]}, "only ended tasks"),
    ({"status": []}, "at least 1"),
    ({"status": ["odd"]}, "status"),
    ({"older_than": -1}, "older_than"),
    ({"older_than": "30d"}, "older_than"),
    ({"older-than": 1}, "older-than"),
    ({"dry_run": "yes"}, "dry_run"),
)


async def test_what_no_removal_can_mean_is_refused_and_removes_nothing_e12_g9(
    root: httpx.AsyncClient, lab: Room
) -> None:
    [task_id] = await cancelled(lab, 1)

    for body, word in REFUSED:
        answer = await root.post("/v1/prune", json={"older_than": 0, **body})
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), body
        assert word in answer.json()["detail"], body

    assert (await lab.get(task_id))["status"] == "cancelled"


async def test_only_a_superuser_removes_and_a_server_without_retention_wants_an_age_e12_g10(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, lab: Room, served: Served
) -> None:
    [task_id] = await cancelled(lab, 1)

    assert problem(await alice.post("/v1/prune", json={"older_than": 0})) == "forbidden"
    for status in ("completed", "failed", "cancelled"):
        setattr(served.settings, f"retention_{status}_seconds", 0)
    refused = await root.post("/v1/prune", json={})
    assert (problem(refused), "older_than" in refused.json()["detail"]) == ("validation-error", True)
    assert (await lab.get(task_id))["status"] == "cancelled"


async def test_an_open_list_goes_on_behind_a_task_that_is_removed_e12(root: httpx.AsyncClient, lab: Room) -> None:
    older = [(await lab.submit())["id"] for _ in range(2)]
    ended = await cancelled(lab, 2)
    page = (await root.get("/v1/tasks", params={"limit": 1})).json()
    assert page["items"][0]["id"] == ended[1]

    assert (await root.post("/v1/prune", json={"older_than": 0})).json()["tasks"] == 2
    rest = (await root.get("/v1/tasks", params={"limit": 10, "cursor": page["next_cursor"]})).json()

    assert [item["id"] for item in rest["items"]] == older[::-1]


async def test_observers_see_counts_windows_and_the_task_itself_without_what_was_removed_e12(
    root: httpx.AsyncClient, lab: Room, served: Served
) -> None:
    kept = (await lab.submit())["id"]
    [gone] = await cancelled(lab, 1)
    async with connected(served) as socket:
        await socket.call("watch", sub="c", topic="counts")
        await socket.call("watch", sub="w", topic="tasks", window={"order": "newest", "filter": {"job": lab.job}})
        await socket.call("watch", sub="t", topic="task", task_id=gone)
        for sub in "cwt":
            await socket.pushed("snapshot", sub=sub)

        await root.post("/v1/prune", json={"older_than": 0})

        [row] = (await socket.pushed("delta", sub="c"))["rows"]
        assert row["counts"] == {"pending": 1}
        assert (await socket.pushed("delta", sub="w"))["gone"] == [gone]
        assert (await socket.pushed("delta", sub="t"))["gone"] == [gone]
    assert (await lab.get(kept))["status"] == "pending"
