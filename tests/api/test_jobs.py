"""Rooms, job names, registration and who sees what."""

import asyncio
from urllib.parse import quote

import httpx
import pytest

from tests.api.rooms import SCHEMA, NewUser, Scoped, make_room, problem


def body(**options: object) -> dict[str, object]:
    return {"category": "tasks", "name": "add", "schema": SCHEMA, **options}


async def test_a_full_name_is_split_at_its_first_two_colons(root: httpx.AsyncClient):
    """Z1."""
    registered = await root.put("/v1/rooms/lab/jobs", json=body(name="a:b:c"))
    assert registered.json()["full_name"] == "lab:tasks:a:b:c"

    found = await root.get("/v1/rooms/lab/jobs/lab:tasks:a:b:c")

    assert (found.json()["name"], found.json()["category"]) == ("a:b:c", "tasks")
    for name in ("lab:tasks", "lab", "lab:tasks:", "::", "lab::a", "other:tasks:a:b:c", "lab:tasks:a%00b"):
        answer = await root.get(f"/v1/rooms/lab/jobs/{name}")
        assert answer.status_code == 404
        assert problem(answer) in {"job-not-found", "not-found"}


@pytest.mark.parametrize("name", ["👩‍👩‍👧", "می‌خواهم", "\x9b2J\u202e\u2028"])
async def test_a_job_is_found_under_every_name_that_it_may_be_registered_with(root: httpx.AsyncClient, name: str):
    """Z1: joiners within it too."""
    registered = (await root.put("/v1/rooms/lab/jobs", json=body(name=name))).json()
    url = f"/v1/rooms/lab/jobs/{quote(registered['full_name'])}"

    found = await root.get(url)
    paused = await root.patch(url, json={"paused": True})

    assert (found.json()["name"], paused.json()["paused"]) == (name, True)


@pytest.mark.parametrize("room", ["@lab", "a:b", "@", "@GLOBAL", "a@b", "%20", "x" * 256])
async def test_an_invalid_room_is_refused_on_every_route_that_takes_one(root: httpx.AsyncClient, room: str):
    """Z2."""
    job = "lab:tasks:add"
    for method, path, given in (
        ("PUT", "jobs", body()),
        ("GET", "jobs", None),
        ("GET", f"jobs/{job}", None),
        ("PATCH", f"jobs/{job}", {"paused": True}),
        ("GET", f"jobs/{job}/tasks", None),
        ("POST", f"tasks/{job}", {"payload": {"n": 1}}),
        ("POST", "tasks", {"tasks": [{"job": job, "payload": {"n": 1}}]}),
        ("GET", "tasks", None),
        ("GET", "workers", None),
    ):
        answer = await root.request(method, f"/v1/rooms/{room}/{path}", json=given)
        assert (answer.status_code, problem(answer)) == (400, "invalid-room-id"), (method, path)


async def test_shared_rooms_are_registered_by_superusers_only(root: httpx.AsyncClient, alice: httpx.AsyncClient):
    """Z3."""
    for room in ("@global", "@internal"):
        refused = await alice.put(f"/v1/rooms/{room}/jobs", json=body())
        assert (refused.status_code, problem(refused)) == (403, "forbidden")
        # The checks come in order: the room's before the category's, the category's before the schema's.
        refused = await alice.put(f"/v1/rooms/{room}/jobs", json=body(category="nope"))
        assert problem(refused) == "forbidden"
    refused = await alice.put("/v1/rooms/lab/jobs", json=body(category="nope", schema={"type": "nope"}))
    assert problem(refused) == "invalid-category"

    assert (await root.put("/v1/rooms/@global/jobs", json=body())).status_code == 201
    assert (await alice.put("/v1/rooms/lab/jobs", json=body())).status_code == 201


async def test_a_room_sees_its_own_jobs_and_the_shared_ones(root: httpx.AsyncClient, alice: httpx.AsyncClient):
    """Z3: anything else is 404, also on submit and get."""
    for room in ("@global", "@internal", "lab", "other"):
        await root.put(f"/v1/rooms/{room}/jobs", json=body())

    seen = (await alice.get("/v1/rooms/lab/jobs")).json()

    assert {job["room_id"] for job in seen["items"]} == {"@global", "@internal", "lab"}
    assert seen["total"] == 3
    hidden = "other:tasks:add"
    for answer in (
        await alice.get(f"/v1/rooms/lab/jobs/{hidden}"),
        await alice.get(f"/v1/rooms/lab/jobs/{hidden}/tasks"),
        await alice.patch(f"/v1/rooms/lab/jobs/{hidden}", json={"paused": True}),
        await alice.post(f"/v1/rooms/lab/tasks/{hidden}", json={"payload": {"n": 1}}),
        await alice.post("/v1/rooms/lab/tasks", json={"tasks": [{"job": hidden, "payload": {"n": 1}}]}),
    ):
        assert (answer.status_code, problem(answer)) == (404, "job-not-found")
    shared = await alice.post("/v1/rooms/lab/tasks/@global:tasks:add", json={"payload": {"n": 1}})
    assert (shared.status_code, shared.json()["room_id"]) == (202, "lab")


async def test_a_category_outside_the_allow_list_is_refused_and_the_setting_is_named(root: httpx.AsyncClient):
    """Z4."""
    answer = await root.put("/v1/rooms/lab/jobs", json=body(category="secrets"))

    assert (answer.status_code, problem(answer)) == (400, "invalid-category")
    assert "TREADLE_ALLOWED_CATEGORIES" in answer.json()["detail"]


async def test_another_schema_conflicts_and_an_equal_one_links_the_worker(root: httpx.AsyncClient):
    """Z5."""
    first = await root.put("/v1/rooms/lab/jobs", json=body())
    reordered = {"required": ["n"], "properties": {"n": {"type": "integer"}}, "type": "object"}

    again = await root.put("/v1/rooms/lab/jobs", json=body(schema=reordered))
    other = await root.put("/v1/rooms/lab/jobs", json=body(schema={"type": "object"}))
    elsewhere = await root.put("/v1/rooms/den/jobs", json=body(schema={"type": "object"}))
    replaced = await root.put("/v1/rooms/lab/jobs", json=body(schema={"type": "object"}, replace=True))

    assert (first.status_code, again.status_code, elsewhere.status_code) == (201, 200, 201)
    assert set(again.json()["workers"]) == {first.json()["worker_id"], again.json()["worker_id"]}
    assert (other.status_code, problem(other)) == (409, "schema-conflict")
    assert (replaced.status_code, replaced.json()["schema_version"]) == (200, 2)
    assert replaced.json()["schema"] == replaced.json()["schema_"] == {"type": "object"}


async def test_both_spellings_of_schema_are_understood_but_not_together(root: httpx.AsyncClient):
    """Z18."""
    assert (await root.put("/v1/rooms/a/jobs", json={"category": "tasks", "name": "x", "schema_": SCHEMA})).json()[
        "schema"
    ] == SCHEMA
    both = await root.put("/v1/rooms/a/jobs", json=body(schema_=SCHEMA))
    assert (both.status_code, problem(both)) == (422, "validation-error")


async def test_first_registrations_at_once_never_fail(root: httpx.AsyncClient):
    """Z5: one 201, the others 200 or 409."""
    answers = await asyncio.gather(
        *(root.put("/v1/rooms/lab/jobs", json=body(schema={"title": str(i % 2)})) for i in range(12))
    )

    codes = sorted(answer.status_code for answer in answers)
    assert codes.count(201) == 1
    assert set(codes) <= {200, 201, 409}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nope"},
        {"$ref": "http://127.0.0.1:9/x"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/none"},
        {"pattern": "("},
        {"$schema": "https://example.invalid/x"},
        {"multipleOf": 0},
    ],
)
async def test_an_invalid_or_remote_schema_is_refused(root: httpx.AsyncClient, schema: dict[str, object]):
    """G9: references to other documents are not followed."""
    answer = await root.put("/v1/rooms/lab/jobs", json=body(schema=schema))

    assert (answer.status_code, problem(answer)) == (422, "validation-error")
    assert (await root.get("/v1/rooms/lab/jobs")).json()["total"] == 0


async def test_a_worker_id_that_is_not_the_users_is_not_found(user: NewUser):
    """Z10."""
    alice, bob = await user("alice"), await user("bob")
    workers = [(await client.post("/v1/workers")).json()["id"] for client in (alice, bob)]

    mine = await alice.put("/v1/rooms/lab/jobs", json=body(worker_id=workers[0]))
    others = await alice.put("/v1/rooms/lab/jobs", json=body(worker_id=workers[1]))
    nobodys = await alice.put("/v1/rooms/lab/jobs", json=body(worker_id="01a1fca0-0000-7000-8000-000000000000"))

    assert (mine.status_code, mine.json()["worker_id"]) == (201, workers[0])
    for answer in (others, nobodys):
        assert (answer.status_code, problem(answer)) == (404, "worker-not-found")


async def test_a_job_shows_its_queue(root: httpx.AsyncClient):
    lab = await make_room(root)
    first = await lab.submit(1)
    for n in range(3):
        await lab.submit(n)
    await lab.start()
    await lab.submit(9, delay=3600)

    job = (await root.get(f"/v1/rooms/lab/jobs/{lab.job}")).json()

    assert job["counts"] == {"pending": 3, "running": 1, "scheduled": 1}
    assert (job["workers"], job["slots"]) == ([lab.worker_id], 1)
    assert job["oldest_pending_at"] > first["scheduled_at"]
    assert job["oldest_pending_of_pools"] == {}


async def test_a_job_tells_since_when_tasks_wait_for_each_pool(root: httpx.AsyncClient):
    lab = await make_room(root)
    await lab.submit(0)
    first = await lab.submit(1, pool="gpu")
    for n, more in enumerate([{"pool": "gpu", "priority": 5}, {"pool": "tpu"}, {"pool": "later", "delay": 3600}]):
        await lab.submit(2 + n, **more)

    job = (await root.get(f"/v1/rooms/lab/jobs/{lab.job}")).json()

    waits = job["oldest_pending_of_pools"]
    assert waits.keys() == {"gpu", "tpu"}
    assert waits["gpu"] == first["scheduled_at"] > job["oldest_pending_at"]


async def test_a_paused_queue_is_not_claimed_from(root: httpx.AsyncClient, alice: httpx.AsyncClient):
    lab = await make_room(root)
    await lab.submit()

    paused = await root.patch(f"/v1/rooms/lab/jobs/{lab.job}", json={"paused": True})

    assert (paused.status_code, paused.json()["paused"]) == (200, True)
    assert (await lab.claim())["task"] is None
    await root.patch(f"/v1/rooms/lab/jobs/{lab.job}", json={"paused": False})
    assert (await lab.claim())["task"] is not None


async def test_jobs_are_listed_newest_first_in_pages(root: httpx.AsyncClient):
    """Z17."""
    for name in "abcd":
        await make_room(root, name=name)

    page = (await root.get("/v1/rooms/lab/jobs?limit=2&offset=1")).json()

    assert [job["name"] for job in page["items"]] == ["c", "b"]
    assert (page["total"], page["limit"], page["offset"]) == (4, 2, 1)


async def test_a_name_that_is_not_known_is_told_with_a_similar_one_that_may_be_seen(
    root: httpx.AsyncClient, scoped: Scoped
) -> None:
    for room, name in (("lab", "resize"), ("den", "resizes"), ("lab", "sub"), ("@global", "resize")):
        await root.put(f"/v1/rooms/{room}/jobs", json=body(name=name))
    den = await scoped("queue:create-task:lab/*", "queue:read:den")
    lab = await scoped("queue:create-task:lab/*", "queue:read:lab")

    async def told(client: httpx.AsyncClient, name: str, room: str = "lab") -> str:
        answer = await client.post(f"/v1/rooms/{room}/tasks/{name}", json={"payload": {"n": 1}})
        assert (answer.status_code, problem(answer)) == (404, "job-not-found")
        return str(answer.json()["detail"])

    for name, meant in (
        ("lab:tasks:resise", "lab:tasks:resize"),
        ("lab:task:resize", "lab:tasks:resize"),
        ("@global:tasks:rezize", "@global:tasks:resize"),
        ("resiz", "lab:tasks:resize"),
        ("lab:tasks:subb", "lab:tasks:sub"),
    ):
        assert f" (did you mean {meant}?)" in await told(root, name)
        assert f" (did you mean {meant}?)" in await told(lab, name)
    for name in ("lab:tasks:add", "lab:tasks:resizeeeeee", "lab:tasks:re", "add", "::", "x" * 5000):
        assert "did you mean" not in await told(root, name)
    assert "did you mean" not in await told(den, "lab:tasks:resise")
    assert "did you mean den" not in await told(root, "lab:tasks:resizess")

    wanted = {"cron": "* * * * *", "job": "lab:tasks:resise", "payload": {"n": 1}}
    asked = [
        await root.get("/v1/rooms/lab/jobs/lab:tasks:resise"),
        await root.patch("/v1/rooms/lab/jobs/lab:tasks:resise", json={"paused": True}),
        await root.get("/v1/rooms/lab/jobs/lab:tasks:resise/tasks"),
        await root.put("/v1/rooms/lab/schedules/often", json=wanted),
        await root.post("/v1/rooms/lab/tasks", json={"tasks": [{"job": "lab:tasks:resise", "payload": {"n": 1}}]}),
    ]
    assert [" (did you mean lab:tasks:resize?)" in one.json()["detail"] for one in asked] == 5 * [True]
