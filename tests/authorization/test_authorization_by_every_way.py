"""Who may do what, by each of the ways that lead to it: the same rule on all of them."""

import httpx

from tests.api.rooms import SCHEMA, Room, Scoped, make_room, problem
from tests.clients import client_at
from treadle_server.store.tables import jobs
from treadle_server.testing import Served


async def joined(client: httpx.AsyncClient, room: Room) -> Room:
    """Return the same room as another user's worker serves it."""
    made = await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "schema": SCHEMA})
    assert made.status_code == 200, made.text
    return Room(client, "lab", room.job, made.json()["worker_id"])


async def test_to_have_a_tasks_run_gives_no_right_to_cancel_it_by_either_way(
    served: Served, alice: httpx.AsyncClient, bob: httpx.AsyncClient
):
    """G10: neither the worker's owner nor the run's credential; with and without the number of the run."""
    theirs = await make_room(alice)
    mine = await joined(bob, theirs)
    task = await theirs.submit()
    claim = (await mine.claim())["task"]
    async with client_at(served.url, {"Authorization": f"Bearer {claim['credentials']}"}) as code:
        for asker in (bob, code):
            path = f"/v1/tasks/{task['id']}"
            answers = [
                await asker.post(f"{path}/cancel"),
                await asker.patch(path, json={"status": "cancelled"}),
                await asker.patch(path, json={"status": "cancelled", "run_id": 0}),
            ]
            assert [(answer.status_code, problem(answer)) for answer in answers] == [(403, "forbidden")] * 3

    assert (await theirs.get(task["id"]))["status"] == "claimed"
    by_submitter = await alice.patch(f"/v1/tasks/{task['id']}", json={"status": "cancelled"})
    assert (by_submitter.status_code, by_submitter.json()["status"]) == (200, "cancelled")


async def test_who_holds_the_scope_cancels_by_either_way(alice: httpx.AsyncClient, scoped: Scoped):
    room = await make_room(alice)
    first, second = await room.submit(1), await room.submit(2)
    warden = await scoped("queue:control-task:lab", "queue:read:lab")

    patched = await warden.patch(f"/v1/tasks/{first['id']}", json={"status": "cancelled"})
    posted = await warden.post(f"/v1/tasks/{second['id']}/cancel")

    assert [(one.status_code, one.json()["status"]) for one in (patched, posted)] == [(200, "cancelled")] * 2


async def test_g10_a_credential_whose_run_is_over_cancels_nothing_by_either_way(served: Served, lab: Room):
    """Though its scopes would allow it while the run is open."""
    other = await lab.submit(2, delay=3600)
    await lab.submit(1, scopes=["queue:control-task:lab"])
    claim = (await lab.claim())["task"]
    await lab.client.post(f"/v1/tasks/{claim['id']}/cancel")
    async with client_at(served.url, {"Authorization": f"Bearer {claim['credentials']}"}) as code:
        answers = [
            await code.post(f"/v1/tasks/{other['id']}/cancel"),
            await code.patch(f"/v1/tasks/{other['id']}", json={"status": "cancelled"}),
        ]

    assert [(answer.status_code, problem(answer)) for answer in answers] == [(401, "unauthorized")] * 2
    assert (await lab.get(other["id"]))["status"] == "scheduled"


WIDER = SCHEMA | {"properties": {"n": {"type": ["integer", "string"]}}}
OTHER = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}


async def register(client: httpx.AsyncClient, schema: dict[str, object], **how: bool) -> httpx.Response:
    body = {"category": "tasks", "name": "add", "schema": schema, **how}
    return await client.put("/v1/rooms/lab/jobs", json=body)


async def test_a_schema_is_replaced_by_who_registered_it_a_controller_or_a_superuser_alone(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, bob: httpx.AsyncClient, scoped: Scoped
):
    """Z5: and to widen it is to replace it."""
    await make_room(alice)
    worker = await scoped("queue:register-job:lab", "queue:worker-id:*", "queue:claim-work:*", name="wim")
    warden = await scoped("queue:*", name="sam")

    for stranger in (bob, worker):
        for how in ({"replace": True, "schema": OTHER}, {"widen": True, "schema": WIDER}):
            refused = await register(stranger, **how)
            assert (refused.status_code, problem(refused)) == (403, "forbidden")
            assert "registered by 'alice'" in refused.json()["detail"]
        assert problem(await register(stranger, OTHER)) == "schema-conflict"
        assert (await register(stranger, SCHEMA, replace=True)).status_code == 200

    versions = [
        (await register(client, schema, **how)).json()["schema_version"]
        for client, schema, how in (
            (alice, WIDER, {"widen": True}),
            (root, OTHER, {"replace": True}),
            (warden, SCHEMA, {"replace": True}),
            (alice, OTHER, {"replace": True}),
        )
    ]
    assert versions == [2, 3, 4, 5]


async def test_g10_a_runs_credential_does_not_replace_what_its_workers_user_registered(
    served: Served, alice: httpx.AsyncClient
):
    room = await make_room(alice)
    await room.submit(scopes=["queue:register-job:lab"])
    claim = (await room.claim())["task"]

    async with client_at(served.url, {"Authorization": f"Bearer {claim['credentials']}"}) as code:
        refused = await register(code, OTHER, replace=True, retain=True)

    assert (refused.status_code, problem(refused)) == (403, "forbidden")


async def test_who_registers_a_deleted_job_anew_has_its_schema(
    served: Served, alice: httpx.AsyncClient, bob: httpx.AsyncClient
):
    room = await make_room(alice)
    assert (await alice.delete(f"/v1/workers/{room.worker_id}")).status_code == 204
    async with served.engine.store.write() as tx:
        await tx.connection.execute(jobs.update().values(deleted_at=served.engine.clock.now()))

    revived = await register(bob, OTHER)

    assert revived.status_code == 201
    assert problem(await register(alice, SCHEMA, replace=True)) == "forbidden"
    assert (await register(bob, SCHEMA, replace=True)).status_code == 200


async def test_a_runs_credential_is_not_its_workers_user_where_webhooks_are_asked_for(
    served: Served, alice: httpx.AsyncClient, root: httpx.AsyncClient
):
    """With the scopes of the room's webhooks too: it turned those of its worker's user elsewhere."""
    hook, url = "/v1/rooms/lab/webhooks/ci", "https://hooks.example/"
    room = await make_room(alice)
    made = await alice.put(hook, json={"url": url, "jobs": ["lab:tasks:none"]})
    assert made.status_code == 201
    scopes = ["queue:read:lab", "queue:control-task:lab"]
    submitted = await root.post(f"/v1/rooms/lab/tasks/{room.job}", json={"payload": {"n": 1}, "scopes": scopes})
    assert submitted.is_success
    claim = (await room.claim())["task"]

    async with client_at(served.url, {"Authorization": f"Bearer {claim['credentials']}"}) as code:
        answers = [
            await code.get("/v1/rooms/lab/webhooks"),
            await code.get(hook),
            await code.get(f"{hook}/deliveries"),
            await code.put(hook, json={"url": "https://else.example/", "rotate": True}),
            await code.put("/v1/rooms/lab/webhooks/new", json={"url": url}),
            await code.post(f"{hook}/redeliver"),
            await code.delete(hook),
        ]

    assert [(answer.status_code, problem(answer)) for answer in answers] == [(403, "forbidden")] * 7
    assert (await alice.get("/v1/rooms/lab/webhooks")).json()["total"] == 1
    assert (await alice.get(hook)).json()["url"] == url


async def test_a_schedule_that_is_not_seen_is_not_there_whatever_of_it_is_to_be_changed(
    alice: httpx.AsyncClient, scoped: Scoped
):
    """It told its job's name, its version, or all of itself with the payload to who may submit tasks of the job."""
    room = await make_room(alice)
    path = "/v1/rooms/lab/schedules/nightly"
    wanted = {"job": room.job, "interval": 3600, "payload": {"n": 1}}
    assert (await alice.put(path, json=wanted)).status_code == 201
    stranger, submitter = await scoped("queue:read:other"), await scoped("queue:create-task:lab/*")

    for asker in (stranger, submitter):
        for change in ({"jitter": 0}, {"jitter": 1}, {"jitter": 1, "if_version": 7}, {"options": {"none": 1}}):
            told = [await asker.patch(place, json=change) for place in (path, path.replace("nightly", "missing"))]
            assert [(answer.status_code, problem(answer)) for answer in told] == [(404, "schedule-not-found")] * 2
            there, missing = (answer.json()["detail"] for answer in told)
            assert there == missing.replace("missing", "nightly")
    put = await submitter.put(path, json={**wanted, "interval": 60, "if_version": 7})
    assert (put.status_code, problem(put)) == (404, "schedule-not-found")
