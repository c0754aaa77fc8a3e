"""Rooms, full names and categories: who sees which job from where (Z1 to Z4)."""

from typing import Any

import pytest

from tests.live.sockets import JOB as JOB_OF_ROOM
from tests.promises.over_socket import SocketUser, asked
from tests.promises.problems import Problem, refused, told
from tests.promises.rig import Rig, over_http, over_socket
from treadle_server.api.routes import ENDPOINTS

NO_NAMES = ("lab", "lab:tasks", "lab:tasks:", "lab::add", ":tasks:add", "lab-tasks-add", "@other:tasks:add", "::")
NO_ROOMS = ("@other", "@Global", "@global ", "@", "a:b", ":", "a@b", "@internal2", "global@")
NOBODY = "00000000-0000-7000-8000-000000000000"


async def test_z1_a_full_name_is_split_at_its_first_two_colons(rig: Rig):
    job = await rig.root.register_job("add:v2:beta")

    task = await rig.root.submit("lab:tasks:add:v2:beta")

    assert (job["room_id"], job["category"], job["name"]) == ("lab", "tasks", "add:v2:beta")
    assert job["full_name"] == task["job_name"] == "lab:tasks:add:v2:beta"
    assert (await rig.root.job("lab:tasks:add:v2:beta"))["id"] == job["id"]


@pytest.mark.parametrize("name", NO_NAMES)
async def test_z1_what_is_no_full_name_is_no_job(rig: Rig, name: str):
    await rig.root.register_job()

    with refused("job-not-found", 404):
        await rig.root.submit(name, room="lab")
    with refused("job-not-found", 404):
        await rig.root.submit_many({"job": name}, {"job": name}, room="lab")
    with refused("job-not-found", 404):
        await rig.root.job(name, room="lab")
    with refused("job-not-found", 404):
        told(await rig.root.http.get(f"/v1/rooms/lab/jobs/{name}/tasks"))


def _of_rooms() -> list[tuple[str, str]]:
    return [(one.method, one.path) for one in ENDPOINTS if "{room}" in one.path]


@over_http
@pytest.mark.parametrize("room", [*NO_ROOMS, ""])
async def test_z2_every_route_that_takes_a_room_refuses_what_is_none(rig: Rig, room: str):
    assert len(_of_rooms()) >= 9
    for method, template in _of_rooms():
        path = template.replace("{room}", room).replace("{job_name}", "lab:tasks:add").replace("{name}", "x")
        body = _body_of(template) if method != "GET" else None

        answer = await rig.root.http.request(method, path, json=body)

        with refused("invalid-room-id", 400):
            told(answer)


def _body_of(template: str) -> dict[str, Any]:
    """Return a body that is right, so that the room alone is at fault."""
    if template.endswith("/jobs"):
        return {"category": "tasks", "name": "add"}
    if template.endswith("/jobs/{job_name}"):
        return {"paused": True}
    return {"tasks": [{"job": "lab:tasks:add"}]} if template.endswith("/tasks") else {}


@over_socket
@pytest.mark.parametrize("room", [*NO_ROOMS, ""])
async def test_z2_every_op_that_takes_a_room_refuses_what_is_none(rig: Rig, room: str):
    assert isinstance(rig.root, SocketUser)
    socket = rig.root.socket
    for op, fields in (
        ("submit", {"room": room, "tasks": [{"job": "lab:tasks:add"}]}),
        ("register", {"room": room, "category": "tasks", "name": "add"}),
        ("open", {"jobs": [{**JOB_OF_ROOM, "room": room}]}),
        ("watch", {"sub": "s", "topic": "jobs", "room": room}),
        ("every", {"room": room}),
        ("watch", {"sub": "s", "topic": "tasks", "window": {"filter": {"room": room}}}),
        ("actions", {"action": "cancel", "filter": {"room": room}}),
    ):
        with refused("invalid-room-id", 400):
            await asked(socket, op, **fields)


async def test_z2_filters_by_room_refuse_what_is_none_too(rig: Rig):
    with refused("invalid-room-id", 400):
        told(await rig.root.http.get("/v1/tasks", params={"room": "a:b"}))
    with refused("invalid-room-id", 400):
        await rig.root.actions("cancel", filter={"room": "a:b"})


async def test_z3_a_global_job_is_seen_from_every_room(rig: Rig):
    await rig.root.register_job(room="@global")
    alice = await rig.user("alice")

    task = await alice.submit("@global:tasks:add", room="den")
    seen = await alice.job("@global:tasks:add", room="attic")

    assert (task["room_id"], task["status"]) == ("den", "pending")
    assert seen["full_name"] == "@global:tasks:add"
    for room in ("den", "attic", "@global"):
        listed = told(await alice.http.get(f"/v1/rooms/{room}/jobs"))
        assert [job["full_name"] for job in listed["items"]] == ["@global:tasks:add"]


@pytest.mark.parametrize("room", ["@global", "@internal"])
async def test_z3_shared_rooms_are_registered_by_a_superuser_only(rig: Rig, room: str):
    alice, second = await rig.user("alice"), await rig.user("second", superuser=True)

    with refused("forbidden", 403):
        await alice.register_job(room=room)

    assert told(await rig.root.http.get(f"/v1/rooms/{room}/jobs"))["items"] == []
    assert (await second.register_job(room=room))["full_name"] == f"{room}:tasks:add"


@pytest.mark.parametrize("room", ["@global", "@internal"])
async def test_z3_who_may_not_register_in_a_shared_room_may_not_serve_it(rig: Rig, room: str):
    """Serving a job means to be given its tasks: the same right, whichever way it is asked for."""
    await rig.root.register_job(room=room)
    alice = await rig.user("alice")

    with refused("forbidden", 403):
        await alice.register_worker(f"{room}:tasks:add")
    with refused("forbidden", 403):
        await alice.register_job(room=room)

    assert (await rig.root.job(f"{room}:tasks:add"))["workers"] == []


async def test_z3_an_internal_task_is_never_given_to_a_remote_worker(rig: Rig):
    """Not even to one that a superuser linked to the job."""
    await rig.root.register_job(room="@internal")
    worker = await rig.root.register_worker("@internal:tasks:add")

    with refused("internal-job-not-configured", 503):
        await rig.root.submit("@internal:tasks:add", room="lab")

    assert await worker.claim() == []


async def test_z3_any_user_registers_in_a_plain_room_and_is_seen_from_that_room_alone(rig: Rig):
    alice = await rig.user("alice")

    job = await alice.register_job(room="alices")

    assert (await alice.job(job["full_name"]))["id"] == job["id"]
    with refused("job-not-found", 404):
        await alice.job(job["full_name"], room="lab")
    with refused("job-not-found", 404):
        await alice.submit(job["full_name"], room="lab")
    with refused("job-not-found", 404):
        await alice.submit(job["full_name"], room="@global")
    with refused("job-not-found", 404):
        told(await alice.http.get(f"/v1/rooms/lab/jobs/{job['full_name']}/tasks"))
    assert told(await alice.http.get("/v1/rooms/lab/jobs"))["items"] == []
    assert (await alice.submit(job["full_name"]))["room_id"] == "alices"


@pytest.mark.parametrize("category", ["nope", "Tasks", "tasks ", "@global"])
async def test_z4_a_category_outside_the_settings_is_refused(rig: Rig, category: str):
    with refused("invalid-category", 400) as problems:
        await rig.root.register_job(category=category)

    assert "modifiers" in problems[0].detail
    assert told(await rig.root.http.get("/v1/rooms/lab/jobs"))["total"] == 0


@pytest.mark.parametrize("category", ["tasks", "modifiers", "selections", "analysis"])
async def test_z4_each_category_of_the_settings_is_taken(rig: Rig, category: str):
    assert (await rig.root.register_job(category=category))["full_name"] == f"lab:{category}:add"


async def test_z4_the_checks_go_in_order_room_rights_category_schema_worker(rig: Rig):
    """Of several faults the first in this order is told."""
    alice = await rig.user("alice")
    await rig.root.register_job(schema={"type": "object"})
    faults: dict[str, Any] = {"category": "nope", "schema": {"type": 7}, "worker_id": NOBODY}

    kinds = []
    for room, mended in (
        ("a:b", {}),
        ("@global", {}),
        ("lab", {}),
        ("lab", {"category": "tasks"}),
        ("lab", {"category": "tasks", "schema": {"type": "array"}}),
        ("lab", {"category": "tasks", "schema": {"type": "object"}}),
    ):
        with pytest.raises(Problem) as caught:
            await alice.register_job(room=room, **{**faults, **mended})
        kinds.append(caught.value.type)

    assert kinds == [
        "invalid-room-id",
        "forbidden",
        "invalid-category",
        "validation-error",
        "schema-conflict",
        "worker-not-found",
    ]


@over_socket
async def test_z3_a_worker_that_opens_itself_registers_by_the_same_rules(rig: Rig):
    alice = await rig.user("alice")
    assert isinstance(alice, SocketUser)

    with refused("forbidden", 403):
        await asked(alice.socket, "open", jobs=[{**JOB_OF_ROOM, "room": "@global"}])
    with refused("invalid-category", 400):
        await asked(alice.socket, "open", jobs=[{**JOB_OF_ROOM, "category": "nope"}])

    assert told(await rig.root.http.get("/v1/workers"))["total"] == 0
