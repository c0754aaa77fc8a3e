"""Limits over HTTP: set, shown with their use, named by jobs and tasks, deleted; and what of them is refused (G9)."""

from datetime import datetime, timedelta

import pytest

from tests.api.rooms import Room, Scoped, problem

PATH = "/v1/rooms/lab/limits/api"


async def test_a_limit_is_made_changed_shown_with_its_use_and_deleted(lab: Room) -> None:
    made = await lab.client.put(PATH, json={"concurrency": 1})
    changed = await lab.client.put(PATH, json={"concurrency": 1, "rate": {"count": 100, "seconds": 60}})
    for n in range(3):
        await lab.submit(n, limits=[{"name": "api", "key": "acme"}])
    running = (await lab.claim())["task"]
    [waits, _] = (await lab.client.get("/v1/tasks", params={"status": "pending"})).json()["items"]

    assert (made.status_code, changed.status_code) == (201, 200)
    shown = (await lab.client.get(PATH)).json()
    assert shown["rate"] == {"count": 100, "seconds": 60.0, "burst": 100}
    assert (shown["used"], shown["waiting"], shown["keys"], shown["version"]) == (1, 2, 1, 2)
    assert (await lab.client.get("/v1/rooms/lab/limits")).json()["items"] == [shown]
    assert waits["blocked_by"] == ["limit:lab/api=acme"]
    assert waits["limits"] == [{"name": "api", "key": "acme", "weight": 1}]
    assert running["limits"] == waits["limits"]
    assert problem(await lab.client.delete(PATH)) == "limit-in-use"
    for item in (await lab.client.get("/v1/tasks")).json()["items"]:
        await lab.client.post(f"/v1/tasks/{item['id']}/cancel")
    # What was cancelled counts until its code has stopped.
    assert problem(await lab.client.delete(PATH)) == "limit-in-use"
    assert (await lab.client.post(f"/v1/tasks/{running['id']}/runs/0/stopped")).is_success
    assert (await lab.client.delete(PATH)).status_code == 204
    assert problem(await lab.client.get(PATH)) == "limit-not-found"


async def test_what_waits_for_a_rate_tells_when_it_opens_alone_and_in_lists(lab: Room) -> None:
    assert (await lab.client.put(PATH, json={"rate": {"count": 1, "seconds": 3600}})).status_code == 201
    for n in range(4):
        await lab.submit(n, **({"limits": [{"name": "api", "key": "acme"}]} if n < 3 else {}))
    first = (await lab.claim())["task"]

    items = (await lab.client.get("/v1/tasks", params={"status": "pending"})).json()["items"]
    plain, *waiting = sorted(items, key=lambda one: (one["blocked_by"] or [], one["queue_position"]))

    claimed = datetime.fromisoformat(first["claimed_at"])
    opens = [datetime.fromisoformat(one["limit_opens_at"]) - claimed for one in waiting]
    assert opens == [timedelta(hours=1), timedelta(hours=2)]
    assert "limit_opens_at" not in plain
    assert await lab.get(waiting[0]["id"]) == waiting[0]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"concurrency": 0}, {"concurrency": 1.5}, {"concurrency": True}, {"rate": {"count": 1}},
        {"rate": {"count": 1, "seconds": 0}}, {"rate": {"count": 0, "seconds": 1}},
        {"rate": {"count": 1, "seconds": 1e-300}}, {"concurrency": 1, "on_full": "drop"}, {"on_full": "reject"},
        {"rate": {"count": 1, "seconds": 1, "burst": 0}}, {"burst": 3},
    ],
)  # fmt: skip
async def test_what_is_no_limit_is_refused_and_changes_nothing_g9(lab: Room, body) -> None:
    assert problem(await lab.client.put(PATH, json=body)) == "validation-error"
    assert problem(await lab.client.get(PATH)) == "limit-not-found"


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        ([{"name": "none"}], "limit-not-found"),
        ([{"name": "api", "weight": 2}], "validation-error"),
        ([{"name": "api", "weight": 0}], "validation-error"),
        ([{"name": "a/b"}], "validation-error"),
        ([{"name": ".."}], "validation-error"),
        ([{"name": "api", "key": ""}], "validation-error"),
        ([{"name": "api", "key": str(n)} for n in range(5)], "validation-error"),
    ],
)
async def test_a_task_or_a_job_whose_limits_can_not_be_is_refused_and_changes_nothing_g9(
    lab: Room, limits, kind
) -> None:
    await lab.client.put(PATH, json={"concurrency": 1})
    job = {"category": "tasks", "name": "limited", "retain": True, "limits": limits}

    assert (
        problem(await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 1}, "limits": limits}))
        == kind
    )
    assert problem(await lab.client.put("/v1/rooms/lab/jobs", json=job)) == kind

    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0
    assert problem(await lab.client.get("/v1/rooms/lab/jobs/lab:tasks:limited")) == "job-not-found"


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_registration_makes_no_limit_whose_path_would_lead_elsewhere_g9(lab: Room, name) -> None:
    job = {"category": "tasks", "name": "limited", "retain": True, "limits": [{"name": name, "concurrency": 1}]}

    refused = await lab.client.put("/v1/rooms/lab/jobs", json=job)

    assert problem(refused) == "validation-error"
    assert (await lab.client.get("/v1/rooms/lab/limits")).json()["total"] == 0


async def test_a_registration_makes_the_limits_that_are_missing_and_changes_none(lab: Room) -> None:
    job = {"category": "tasks", "name": "limited", "retain": True}

    for concurrency in (5, 9):
        limits = [{"name": "api", "key": "/customer", "concurrency": concurrency}]
        assert (await lab.client.put("/v1/rooms/lab/jobs", json={**job, "limits": limits})).is_success
    submitted = await lab.client.post("/v1/rooms/lab/tasks/lab:tasks:limited", json={"payload": {"customer": "acme"}})

    assert (await lab.client.get(PATH)).json()["concurrency"] == 5
    assert submitted.json()["counts_against"] == [
        {"room": "lab", "name": "api", "key": "acme", "weight": 1, "own": False}
    ]
    assert problem(await lab.client.delete(PATH)) == "limit-in-use"


async def test_whoever_may_not_make_a_missing_limit_is_told_which_one_to_have_made(lab: Room, scoped: Scoped) -> None:
    """A worker whose token may not was told that only a superuser may set limits, and not which."""
    sam = await scoped("queue:register-job:@global")
    body = {"category": "tasks", "name": "j", "retain": True, "limits": [{"name": "pool", "concurrency": 2}]}

    refused = await sam.put("/v1/rooms/@global/jobs", json=body)
    await lab.client.put("/v1/rooms/@global/limits/pool", json={"concurrency": 2})

    assert refused.status_code == 403
    assert "have the limit 'pool' created first (treadle limits set pool --room @global …)" in refused.json()["detail"]
    assert (await sam.put("/v1/rooms/@global/jobs", json=body)).status_code == 201


async def test_a_limit_that_rejects_answers_429_with_retry_after_and_a_bulk_is_refused_whole(lab: Room) -> None:
    job = {"category": "tasks", "name": "limited", "retain": True}
    limits = [{"name": "api", "concurrency": 2, "on_full": "reject"}]
    alone = await lab.client.put("/v1/rooms/lab/jobs", json={**job, "limits": [{"name": "x", "on_full": "reject"}]})
    assert (await lab.client.put("/v1/rooms/lab/jobs", json={**job, "limits": limits})).is_success
    item = {"job": "lab:tasks:limited", "payload": {}}

    bulk = await lab.client.post("/v1/rooms/lab/tasks", json={"tasks": [item] * 3})
    taken = [await lab.client.post("/v1/rooms/lab/tasks/lab:tasks:limited", json={"payload": {}}) for _ in range(3)]

    assert problem(alone) == "validation-error"
    assert (problem(bulk), bulk.headers["Retry-After"]) == ("limit-full", "1")
    assert [answer.status_code for answer in taken] == [202, 202, 429]
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 2
    assert (await lab.client.get(PATH)).json()["on_full"] == "reject"


async def test_a_limit_that_replaces_cancels_what_waits_and_runs_and_the_worker_is_told_to_stop(lab: Room) -> None:
    assert (await lab.client.put(PATH, json={"concurrency": 1, "on_full": "replace"})).json()["on_full"] == "replace"
    limits = [{"name": "api", "key": "doc"}]
    await lab.submit(0, limits=limits)
    running = await lab.start()
    item = {"job": lab.job, "payload": {"n": 1}, "limits": limits}

    answered = (await lab.client.post("/v1/rooms/lab/tasks", json={"tasks": [item] * 2})).json()["tasks"]
    beat = {"tasks": [{"task_id": running["id"], "run_id": 0}]}
    told = (await lab.client.patch(f"/v1/workers/{lab.worker_id}", json=beat)).json()
    [run] = (await lab.client.get(f"/v1/tasks/{running['id']}/runs")).json()["items"]

    stands = [(task["status"], task["reason"], task["queue_position"]) for task in answered]
    assert stands == [("cancelled", "superseded", None), ("pending", None, 1)]
    superseded = await lab.get(running["id"])
    assert (superseded["status"], superseded["reason"], run["reason"]) == ("cancelled", "superseded", "superseded")
    assert superseded["error"].startswith(f"task {answered[0]['id']} superseded it")
    assert [one["task_id"] for one in told["cancel"]] == [running["id"]]
    shown = (await lab.client.get(PATH)).json()
    assert (shown["used"], shown["waiting"]) == (1, 1)
    stopped = {"tasks": [], "stopped": [{"task_id": running["id"], "run_id": 0}]}
    assert (await lab.client.patch(f"/v1/workers/{lab.worker_id}", json=stopped)).is_success
    assert (await lab.claim())["task"]["id"] == answered[1]["id"]


async def test_the_busiest_keys_are_shown_of_a_shared_room_only_to_who_reads_all_rooms(
    lab: Room, scoped: Scoped
) -> None:
    shared = "/v1/rooms/@global/limits/api"
    rate = {"count": 1, "seconds": 60}
    for path, body in ((PATH, {"concurrency": 1, "rate": {**rate, "count": 2}}), (shared, {"rate": rate})):
        assert (await lab.client.put(path, json=body)).status_code == 201
    job = {"category": "tasks", "name": "shared", "retain": True, "limits": [{"name": "api", "key": "/secret"}]}
    assert (await lab.client.put("/v1/rooms/@global/jobs", json=job)).is_success
    await lab.client.post("/v1/rooms/lab/tasks/@global:tasks:shared", json={"payload": {"secret": "s3cret"}})
    for n, key in enumerate(("acme", "acme", None, "other", *map(str, range(9)))):
        await lab.submit(n, limits=[{"name": "api", **({} if key is None else {"key": key})}])
    claimed = (await lab.claim(tasks=2))["tasks"]
    reader = await scoped("queue:read:lab", "queue:read:@global")

    mine, all_shared = [(await lab.client.get(path)).json() for path in (PATH, shared)]
    told, hidden = [(await reader.get(path)).json() for path in (PATH, shared)]

    assert [task["counts_against"][0]["key"] for task in claimed] == ["acme", None]
    assert (mine["keys"], len(mine["busiest"])) == (12, 5)
    first = mine["busiest"][0]
    assert (first["key"], first["used"], first["waiting"], first["tokens"]) == ("acme", 1, 1, 1.0)
    assert first["tokens_at"] is not None
    assert all((one["waiting"], one["tokens"], one["tokens_at"]) == (1, 2.0, None) for one in mine["busiest"][1:])
    assert [one["key"] for one in all_shared["busiest"]] == ["s3cret"]
    assert told == mine
    assert (hidden["waiting"], hidden["keys"], hidden["busiest"]) == (1, 1, [])
    assert "s3cret" not in (await reader.get("/v1/rooms/@global/limits")).text
