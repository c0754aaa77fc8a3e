"""The whole way of a task over plain HTTP, with the status codes and headers of DESIGN.md section 5."""

import httpx


async def test_a_task_walks_from_registration_to_completion_over_plain_http(root: httpx.AsyncClient):
    """Z10, Z17, C2."""
    registered = await root.put(
        "/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "schema": {"type": "object"}}
    )
    assert registered.status_code == 201
    worker_id = registered.json()["worker_id"]

    submitted = await root.post("/v1/rooms/lab/tasks/lab:tasks:add", json={"payload": {"a": 1}, "tags": {"k": "v"}})
    assert submitted.status_code == 202
    task = submitted.json()
    assert submitted.headers["location"] == f"/v1/tasks/{task['id']}"
    assert submitted.headers["retry-after"] == "1"
    assert (task["status"], task["queue_position"], task["run_id"]) == ("pending", 1, None)

    claimed = await root.post("/v1/tasks/claim", json={"worker_id": worker_id})
    assert claimed.status_code == 200
    claim = claimed.json()["task"]
    assert claimed.json()["tasks"] == [claim]
    assert (claim["id"], claim["status"], claim["run_id"], claim["payload"]) == (task["id"], "claimed", 0, {"a": 1})
    assert 30 < claim["seconds_left"] <= 60
    assert claim["taken_until"].endswith("Z")
    assert {"credentials", "checkpoint"} <= set(claim)

    run = f"/v1/tasks/{task['id']}/runs/0"
    started = await root.post(f"{run}/started")
    assert (started.status_code, started.json()["status"]) == (200, "running")
    progress = await root.post(f"{run}/progress", json={"share": 0.5, "message": "half"})
    assert (progress.status_code, progress.json()["progress"]) == (200, {"share": 0.5, "message": "half"})
    checkpoint = await root.post(f"{run}/checkpoint", json={"checkpoint": {"at": 7}})
    assert (checkpoint.status_code, checkpoint.json()["checkpoint"]) == (200, {"at": 7})
    logged = await root.post(f"{run}/logs", json={"lines": [{"message": "one"}, {"message": "two", "level": "error"}]})
    assert logged.status_code == 200
    reclaimed = await root.post(f"{run}/reclaim")
    assert reclaimed.status_code == 200
    assert 30 < reclaimed.json()["seconds_left"] <= 60
    completed = await root.post(f"{run}/completed", json={"result": {"sum": 3}, "usage": 1.5})
    assert (completed.status_code, completed.json()["result"]) == (200, {"sum": 3})

    done = (await root.get(f"/v1/tasks/{task['id']}")).json()
    assert (done["status"], done["usage"], done["taken_until"]) == ("completed", 1.5, None)
    assert done["created_at"] <= done["claimed_at"] <= done["started_at"] <= done["completed_at"]
    runs = (await root.get(f"/v1/tasks/{task['id']}/runs")).json()
    assert [(r["run_id"], r["status"], r["worker_id"]) for r in runs["items"]] == [(0, "completed", worker_id)]
    logs = (await root.get(f"/v1/tasks/{task['id']}/logs")).json()
    assert [(line["level"], line["message"]) for line in logs["items"]] == [("info", "one"), ("error", "two")]

    assert (await root.delete(f"/v1/workers/{worker_id}")).status_code == 204
    assert (await root.get(f"/v1/workers/{worker_id}")).status_code == 404
    assert (await root.get(f"/v1/tasks/{task['id']}")).json()["worker_id"] == worker_id


async def test_the_server_tells_how_it_is(root: httpx.AsyncClient):
    stats = (await root.get("/v1/stats")).json()
    assert stats["jobs"] == 0
    assert stats["database"] in {"sqlite", "postgresql"}
    for path in ("/healthz", "/v1/healthz"):
        assert (await root.get(path)).json()["status"] == "ok"
    ready = await root.get("/readyz")
    assert ready.json()["services"]["store"] == "ok"
    assert {"sweeper", "promoter"} <= set(ready.json()["services"])


async def test_results_of_every_json_type_come_back_as_they_were(root: httpx.AsyncClient):
    registered = await root.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "echo"})
    worker_id = registered.json()["worker_id"]
    for result in (None, True, 5, 1.5, "5", "text", "\U0001f600", [1, [2]], {"a": {"b": None}}, 2**53 + 1):
        task = (await root.post("/v1/rooms/lab/tasks/lab:tasks:echo")).json()
        await root.post("/v1/tasks/claim", json={"worker_id": worker_id})
        await root.post(f"/v1/tasks/{task['id']}/runs/0/started")
        answer = await root.post(f"/v1/tasks/{task['id']}/runs/0/completed", json={"result": result})
        assert answer.json()["result"] == result
        assert (await root.get(f"/v1/tasks/{task['id']}")).json()["result"] == result
