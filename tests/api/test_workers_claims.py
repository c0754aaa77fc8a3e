"""Claims, reports and heartbeats over plain HTTP."""

import asyncio
import time
from uuid import uuid4

import httpx

from tests.api.rooms import SCHEMA, Room, make_room, problem, until
from treadle_server.testing import Served


async def test_a_claim_gives_as_many_as_it_asks_for_and_there_are(lab: Room):
    """C1."""
    for n in range(3):
        await lab.submit(n)

    two, rest, none = await lab.claim(tasks=2), await lab.claim(tasks=100), await lab.claim()

    assert [task["payload"]["n"] for task in two["tasks"]] == [0, 1]
    assert two["task"] == two["tasks"][0]
    assert [task["payload"]["n"] for task in rest["tasks"]] == [2]
    assert none == {"task": None, "tasks": []}


async def test_a_waiting_claim_is_woken_by_a_submit(served: Served, lab: Room):
    """C1."""
    began = time.monotonic()
    claim = asyncio.create_task(lab.claim(wait=20))
    await until(lambda: served.engine.dispatcher._waiting)

    task = await lab.submit()

    assert (await claim)["task"]["id"] == task["id"]
    assert time.monotonic() - began < 10


async def test_a_closed_connection_claims_nothing(served: Served, lab: Room):
    """C1."""
    claim = asyncio.create_task(lab.claim(wait=20))
    await until(lambda: served.engine.dispatcher._waiting)
    claim.cancel()
    await until(lambda: not served.engine.dispatcher._waiting)

    task = await lab.submit()

    assert (await lab.claim(wait=10))["task"]["id"] == task["id"]


async def test_claims_are_the_workers_owners(root: httpx.AsyncClient, alice: httpx.AsyncClient, bob: httpx.AsyncClient):
    """Z9: unknown worker 404, another user's 403."""
    lab = await make_room(alice)

    unknown = await alice.post("/v1/tasks/claim", json={"worker_id": str(uuid4())})
    others = await bob.post("/v1/tasks/claim", json={"worker_id": lab.worker_id})
    no_id = await bob.post("/v1/tasks/claim", json={"worker_id": "me"})

    assert (unknown.status_code, problem(unknown)) == (404, "worker-not-found")
    assert (others.status_code, problem(others)) == (403, "forbidden")
    assert (no_id.status_code, problem(no_id)) == (422, "validation-error")


async def test_an_older_client_reports_without_a_run(lab: Room):
    """Z18."""
    task = await lab.submit()
    await lab.claim()
    url = f"/v1/tasks/{task['id']}"

    running = await lab.client.patch(url, json={"status": "running"})
    twice = await lab.client.patch(url, json={"status": "running"})
    done = await lab.client.patch(url, json={"status": "completed", "result": {"x": 1}})
    again = await lab.client.patch(url, json={"status": "completed", "result": {"x": 1}})

    assert (running.status_code, running.json()["status"]) == (200, "running")
    assert (twice.status_code, again.status_code) == (409, 409)
    assert (done.status_code, done.json()["result"]) == (200, {"x": 1})


async def test_a_lost_task_is_a_conflict_for_the_worker_that_lost_it(alice: httpx.AsyncClient, bob: httpx.AsyncClient):
    """Z18, G3: never 403 or 404."""
    lab = await make_room(alice)
    task = await lab.submit()
    await lab.start()
    await alice.post(f"/v1/tasks/{task['id']}/cancel")

    for given in ({"status": "completed"}, {"status": "completed", "run_id": 0}, {"status": "failed", "error": "x"}):
        answer = await alice.patch(f"/v1/tasks/{task['id']}", json=given)
        assert answer.status_code == 409
        assert problem(answer) in {"stale-run", "invalid-task-transition"}
    late = await alice.post(f"/v1/tasks/{task['id']}/runs/0/completed", json={"result": 1})
    assert (late.status_code, problem(late)) == (409, "stale-run")


async def test_the_same_report_twice_is_fine_and_another_is_a_conflict(lab: Room):
    """C7."""
    for kind, given, other in (
        ("completed", {"result": 1}, {"result": 2}),
        ("failed", {"error": "x"}, {"error": "y"}),
        ("exception", {"reason": "malformed-payload", "error": "x"}, {"reason": "internal-error", "error": "x"}),
    ):
        task = await lab.submit()
        await lab.start()
        run = f"/v1/tasks/{task['id']}/runs/0"

        first = await lab.client.post(f"{run}/{kind}", json=given)
        again = await lab.client.post(f"{run}/{kind}", json=given)
        conflict = await lab.client.post(f"{run}/{kind}", json=other)

        assert (first.status_code, again.status_code) == (200, 200), kind
        assert (conflict.status_code, problem(conflict)) == (409, "stale-run"), kind


async def test_many_reports_are_answered_one_by_one(lab: Room):
    first, second = await lab.submit(1), await lab.submit(2)
    await lab.claim(tasks=2)
    unknown = str(uuid4())

    answer = await lab.client.post(
        f"/v1/workers/{lab.worker_id}/reports",
        json={
            "reports": [
                {"kind": "started", "task_id": first["id"], "run_id": 0},
                {"kind": "completed", "task_id": first["id"], "run_id": 0, "result": 1},
                {"kind": "completed", "task_id": second["id"], "run_id": 0},
                {"kind": "completed", "task_id": second["id"], "run_id": 7},
                {"kind": "started", "task_id": unknown, "run_id": 0},
                {"kind": "exception", "task_id": second["id"], "run_id": 0, "reason": "deadline-exceeded"},
            ]
        },
    )

    assert answer.status_code == 200
    assert [one["status"] for one in answer.json()["answers"]] == [200, 200, 409, 409, 404, 422]
    assert answer.json()["answers"][4]["type"] == "/v1/problems/task-not-found"


async def test_a_heartbeat_renews_and_tells_what_to_stop(lab: Room):
    """L1: an empty body renews every lease."""
    kept, dropped, asked = [await lab.submit(n) for n in range(3)]
    for _ in range(3):
        await lab.start()
    url = f"/v1/workers/{lab.worker_id}"
    await lab.client.post(f"/v1/tasks/{dropped['id']}/cancel")
    await lab.client.post(f"/v1/tasks/{asked['id']}/pause")

    plain = await lab.client.patch(url)
    named = await lab.client.patch(
        url, json={"tasks": [{"task_id": t["id"], "run_id": 0} for t in (kept, dropped, asked)]}
    )
    stopped = await lab.client.patch(url, json={"tasks": [], "stopped": [{"task_id": dropped["id"], "run_id": 0}]})
    gone = await lab.client.patch(url, json={"tasks": [{"task_id": dropped["id"], "run_id": 0}]})

    assert {one["task_id"] for one in plain.json()["taken_until"]} == {kept["id"], asked["id"]}
    assert all(30 < one["seconds_left"] <= 60 for one in plain.json()["taken_until"])
    assert named.json()["cancel"] == [{"task_id": dropped["id"], "run_id": 0}]
    assert {one["task_id"] for one in named.json()["taken_until"]} == {t["id"] for t in (kept, dropped, asked)}
    assert named.json()["pause"] == [{"task_id": asked["id"], "run_id": 0}]
    assert stopped.status_code == 200
    assert gone.json()["gone"] == [{"task_id": dropped["id"], "run_id": 0}]


async def test_workers_come_are_seen_and_go(alice: httpx.AsyncClient, bob: httpx.AsyncClient):
    """Z10."""
    made = await alice.post("/v1/workers", json={"name": "w", "group": "g", "concurrency": 4, "version": "1"})
    assert made.status_code == 201
    worker_id = made.json()["id"]
    bare = await alice.post("/v1/workers")
    assert (bare.status_code, bare.json()["concurrency"]) == (201, 1)

    seen = (await bob.get(f"/v1/workers/{worker_id}")).json()
    assert (seen["name"], seen["state"], seen["owner"], seen["concurrency"]) == ("w", "online", "alice", 4)
    assert (await bob.get("/v1/workers")).json()["total"] == 2
    assert (await bob.get("/v1/rooms/lab/workers")).json()["total"] == 0
    lab = await make_room(alice)
    assert [w["id"] for w in (await bob.get("/v1/rooms/lab/workers")).json()["items"]] == [lab.worker_id]
    draining = await alice.patch(f"/v1/workers/{worker_id}", json={"draining": True})
    assert draining.json()["state"] == "draining"
    changes = (("PATCH", ""), ("DELETE", ""), ("POST", "/drain"))
    for method, verb in changes:
        answer = await bob.request(method, f"/v1/workers/{worker_id}{verb}")
        assert (answer.status_code, problem(answer)) == (403, "forbidden")
    assert (await alice.delete(f"/v1/workers/{worker_id}")).status_code == 204
    for method, verb in (("GET", ""), *changes):
        answer = await alice.request(method, f"/v1/workers/{worker_id}{verb}")
        assert (answer.status_code, problem(answer)) == (404, "worker-not-found")
        # Who asks may be another than the worker.
        assert (method == "GET") is ("it must register again" not in answer.json()["detail"])


async def test_a_worker_over_http_that_is_asked_to_drain_hears_of_it_with_its_heartbeat_and_claims_nothing(lab: Room):
    """To be asked is no sign of life."""
    before = (await lab.client.get(f"/v1/workers/{lab.worker_id}")).json()
    asked = (await lab.client.post(f"/v1/workers/{lab.worker_id}/drain")).json()
    await lab.submit()

    assert (asked["state"], asked["last_heartbeat"]) == ("draining", before["last_heartbeat"])
    assert (await lab.claim())["task"] is None
    assert (await lab.client.patch(f"/v1/workers/{lab.worker_id}")).json()["state"] == "draining"
    assert (await lab.client.patch(f"/v1/workers/{lab.worker_id}", json={"draining": False})).json()[
        "state"
    ] == "online"
    assert (await lab.claim())["task"] is not None


async def test_removing_a_worker_fails_what_it_held(lab: Room):
    """Z11: a job without budgets fails its task, which still tells its worker."""
    task = await lab.submit()
    await lab.start()

    await lab.client.delete(f"/v1/workers/{lab.worker_id}")

    lost = await lab.get(task["id"])
    assert (lost["status"], lost["error"], lost["worker_id"]) == ("failed", "Worker disconnected", lab.worker_id)


async def test_a_reclaim_of_a_run_that_is_over_is_a_conflict(lab: Room):
    """C4."""
    task = await lab.submit()
    await lab.start()

    good = await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/reclaim")
    other = await lab.client.post(f"/v1/tasks/{task['id']}/runs/1/reclaim")
    await lab.client.post(f"/v1/tasks/{task['id']}/cancel")
    over = await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/reclaim")

    assert good.status_code == 200
    for answer in (other, over):
        assert (answer.status_code, problem(answer)) == (409, "stale-run")


async def test_a_job_that_is_linked_while_a_claim_waits_is_served_by_it(served: Served, lab: Room):
    """C1."""
    other = await make_room(lab.client, name="other", retain=True)
    task = await other.submit()
    claim = asyncio.create_task(lab.claim(wait=20))
    await until(lambda: served.engine.dispatcher._waiting)

    link = {"category": "tasks", "name": "other", "schema": SCHEMA, "worker_id": lab.worker_id}
    linked = await lab.client.put(f"/v1/rooms/{lab.room}/jobs", json=link)

    assert linked.status_code == 200
    async with asyncio.timeout(10):
        assert (await claim)["task"]["id"] == task["id"]
