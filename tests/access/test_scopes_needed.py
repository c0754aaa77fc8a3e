"""What each scope allows, and what a plain user may (C3, C8, Z3, G9, G10)."""

from typing import Any

import httpx
import pytest

from tests.api.rooms import Scoped, make_room, problem, token_of
from tests.live.sockets import connected
from treadle_server.authorization.narrowing import HEADER
from treadle_server.testing import Served

JOB = {"category": "tasks", "name": "add", "schema": {"type": "object"}, "retain": True}


async def refused(answer: httpx.Response, *words: str) -> None:
    """Fail unless it is forbidden, with a word on what is missing."""
    assert (answer.status_code, problem(answer)) == (403, "forbidden"), answer.text
    assert all(word in answer.json()["detail"] for word in words), answer.text


async def test_global_is_registered_by_superusers_and_with_its_scope_and_internal_by_superusers_alone_z3_c8(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, scoped: Scoped
) -> None:
    holder = await scoped("queue:register-job:*")

    await refused(await alice.put("/v1/rooms/@global/jobs", json=JOB), "queue:register-job:@global")
    await refused(await alice.put("/v1/rooms/@internal/jobs", json=JOB), "superuser")
    await refused(await holder.put("/v1/rooms/@internal/jobs", json=JOB), "superuser")
    assert (await holder.put("/v1/rooms/@global/jobs", json=JOB)).status_code == 201
    assert (await root.put("/v1/rooms/@internal/jobs", json=JOB)).status_code == 201
    assert (await alice.put("/v1/rooms/plain/jobs", json=JOB)).status_code == 201
    assert (await alice.post("/v1/rooms/@global/tasks/@global:tasks:add")).status_code == 202
    await refused(await alice.post("/v1/rooms/@internal/tasks/@internal:tasks:add"), "queue:create-task:@internal/")
    # Only superusers make tokens, so that only they grant it.
    await refused(await alice.post("/v1/tokens", json={"name": "x", "scopes": ["queue:register-job:@global"]}))


async def test_a_submit_needs_the_scope_of_its_room_and_job_c8(root: httpx.AsyncClient, scoped: Scoped) -> None:
    for room, name in (("lab", "add"), ("lab", "sub"), ("@global", "shared")):
        await make_room(root, room, name)
    client = await scoped("queue:create-task:lab/lab:tasks:add", "queue:create-task:lab/@global:*")
    one = {"payload": {"n": 1}}

    assert (await client.post("/v1/rooms/lab/tasks/lab:tasks:add", json=one)).status_code == 202
    assert (await client.post("/v1/rooms/lab/tasks/@global:tasks:shared", json=one)).status_code == 202
    wanted = "queue:create-task:lab/lab:tasks:sub"
    await refused(await client.post("/v1/rooms/lab/tasks/lab:tasks:sub", json=one), wanted)
    await refused(await client.post("/v1/rooms/@global/tasks/@global:tasks:shared", json=one), "queue:create-task:@gl")
    # The same of a job that is not there: who may not submit is not told.
    await refused(await client.post("/v1/rooms/lab/tasks/lab:tasks:none", json=one), "queue:create-task:lab/lab")
    both = {"tasks": [{"job": "lab:tasks:add", **one}, {"job": "lab:tasks:sub", **one}]}
    await refused(await client.post("/v1/rooms/lab/tasks", json=both), wanted)
    assert (await root.get("/v1/tasks")).json()["total"] == 2


@pytest.mark.parametrize(
    ("carried", "status", "word"),
    [
        (["queue:read:lab"], 202, ""),
        (["queue:read:lab", "aws:s3:bucket/*"], 403, "aws:s3:bucket/*"),
        (["queue:read:*"], 403, "queue:read:*"),
        (["queue:create-task:lab/lab:tasks:add"], 202, ""),
        (["*"], 403, "*"),
        (["queue:**"], 422, "**"),
        (["a b"], 422, "space"),
    ],
)
async def test_a_submitter_needs_every_scope_that_the_task_carries_c8_g10(
    root: httpx.AsyncClient, scoped: Scoped, served: Served, carried: list[str], status: int, word: str
) -> None:
    await make_room(root)
    client = await scoped("queue:create-task:lab/*", "queue:read:lab")
    given = {"payload": {"n": 1}, "scopes": carried}

    answer = await client.post("/v1/rooms/lab/tasks/lab:tasks:add", json=given)

    assert answer.status_code == status, answer.text
    assert status == 202 or word in answer.json()["detail"]
    many = {"tasks": [{"job": "lab:tasks:add", "payload": {"n": 1}}, {"job": "lab:tasks:add", **given}]}
    assert (await client.post("/v1/rooms/lab/tasks", json=many)).status_code == status
    async with connected(served, token_of(client)) as socket:
        tasks = (await socket.call("submit_each", room="lab", tasks=many["tasks"]))["tasks"]
    assert "problem" not in tasks[0]
    assert tasks[1].get("problem", {}).get("status", 202) == status
    allowed = 5 if status == 202 else 1
    assert (await root.get("/v1/tasks")).json()["total"] == allowed


async def test_a_plain_user_gives_a_task_the_rights_that_he_has_and_no_more_c8_g10(
    root: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    await make_room(alice)
    path = "/v1/rooms/lab/tasks/lab:tasks:add"
    fine = ["queue:create-task:lab/*", "queue:read:lab", "queue:register-job:lab"]

    assert (await alice.post(path, json={"payload": {"n": 1}, "scopes": fine})).status_code == 202
    for scope in ("queue:control-task:lab", "queue:register-job:@global", "queue:create-task:*", "*", "aws:x"):
        await refused(await alice.post(path, json={"payload": {"n": 1}, "scopes": [scope]}), scope)
    assert (await root.post(path, json={"payload": {"n": 1}, "scopes": ["*"]})).status_code == 202


async def test_the_payload_of_a_task_with_scopes_is_changed_by_who_holds_them_c8_g10(
    root: httpx.AsyncClient, scoped: Scoped
) -> None:
    lab = await make_room(root)
    task = await lab.submit(scopes=["aws:deploy"])
    client = await scoped("queue:control-task:lab")
    path = f"/v1/tasks/{task['id']}"

    assert (await client.patch(path, json={"priority": 3})).status_code == 200
    for given in ({"payload": {"n": 666}}, {"checkpoint": {"n": 666}}):
        await refused(await client.patch(path, json=given), "aws:deploy")
    assert (await root.get(path)).json()["payload"] == {"n": 0}
    holder = await scoped("queue:control-task:lab", "aws:*")
    assert (await holder.patch(path, json={"payload": {"n": 1}})).status_code == 200


CLAIMING = ("queue:register-job:lab", "queue:claim-work:linux/gpu", "queue:worker-id:farm/*")


async def test_claiming_needs_the_scopes_of_the_pool_and_the_worker_c3(root: httpx.AsyncClient, scoped: Scoped) -> None:
    lab = await make_room(root)
    client = await scoped(*CLAIMING)

    for given, missing in (
        ({"group": "farm", "name": "a"}, "queue:claim-work:-"),
        ({"group": "farm", "name": "a", "pool": "linux/cpu"}, "queue:claim-work:linux/cpu"),
        ({"group": "barn", "name": "a", "pool": "linux/gpu"}, "queue:worker-id:barn/a"),
        ({"pool": "linux/gpu"}, "queue:worker-id:-/-"),
    ):
        await refused(await client.post("/v1/workers", json=given), missing)
    mine = {"group": "farm", "name": "a", "pool": "linux/gpu"}
    worker_id = (await client.post("/v1/workers", json=mine)).json()["id"]
    linked = {"category": "tasks", "name": "add", "worker_id": worker_id, "schema": (await root.get(
        f"/v1/rooms/lab/jobs/{lab.job}")).json()["schema"]}  # fmt: skip
    assert (await client.put("/v1/rooms/lab/jobs", json=linked)).status_code == 200
    await lab.submit(pool="linux/gpu")
    claim = {"worker_id": worker_id}
    narrow = {HEADER: '["queue:worker-id:farm/*"]'}
    await refused(await client.post("/v1/tasks/claim", json=claim, headers=narrow), "queue:claim-work:linux/gpu")
    narrow = {HEADER: '["queue:claim-work:*"]'}
    await refused(await client.post("/v1/tasks/claim", json=claim, headers={HEADER: '["queue:claim-work:linux/gpu"]'}))
    await refused(await client.post("/v1/tasks/claim", json=claim, headers=narrow), "queue:claim-work:*")
    assert (await client.post("/v1/tasks/claim", json=claim)).json()["task"]["status"] == "claimed"


async def test_a_worker_with_scopes_works_and_learns_that_it_lost_a_run_c3_c4(
    root: httpx.AsyncClient, scoped: Scoped, served: Served
) -> None:
    client = await scoped(*CLAIMING)
    worker = {"group": "farm", "name": "a", "pool": "linux/gpu", "concurrency": 2}
    job = {"room": "lab", **JOB}
    async with connected(served, token_of(client)) as socket:
        assert await socket.refused("open", worker=worker, jobs=[{**job, "room": "other"}]) == "forbidden"
        await socket.call("open", worker=worker, jobs=[job])
        one, two = [(await root.post("/v1/rooms/lab/tasks/lab:tasks:add", json={})).json() for _ in range(2)]
        await socket.claims(2)
        report = {"task_id": one["id"], "run_id": 0, "kind": "completed", "starts": True, "result": 1}
        [done] = (await socket.call("reports", reports=[report]))["answers"]
        await root.post(f"/v1/tasks/{two['id']}/cancel")
        late = {"task_id": two["id"], "run_id": 0, "kind": "progress", "share": 0.5}
        [lost] = (await socket.call("reports", reports=[late]))["answers"]

    assert (done["status"], lost["status"]) == (200, 409)
    over_http = await client.post(f"/v1/tasks/{two['id']}/runs/0/progress", json={"share": 0.5})
    assert (over_http.status_code, problem(over_http)) == (409, "stale-run")


async def test_a_token_for_one_run_reports_of_it_alone_g10(root: httpx.AsyncClient, scoped: Scoped) -> None:
    lab = await make_room(root)
    mine, other = await lab.submit(), await lab.submit()
    await lab.start()
    await lab.start()
    client = await scoped(f"queue:claim-task:{mine['id']}/0")
    path = "/v1/tasks/{}/runs/{}/{}"

    assert (await client.post(path.format(mine["id"], 0, "progress"), json={"share": 0.5})).status_code == 200
    assert (await client.post(path.format(mine["id"], 0, "reclaim"))).status_code == 200
    assert (await client.patch(f"/v1/tasks/{mine['id']}", json={"status": "completed"})).status_code == 200
    late = await client.post(path.format(mine["id"], 0, "progress"), json={"share": 0.6})
    assert (late.status_code, problem(late)) == (409, "stale-run")
    hidden = await client.post(path.format(other["id"], 0, "progress"), json={"share": 0.5})
    assert (hidden.status_code, problem(hidden)) == (404, "task-not-found")
    for run in (other["id"], mine["id"]):
        assert (await client.post(path.format(run, 1, "completed"))).status_code in {404, 409}
    assert (await client.delete(f"/v1/workers/{lab.worker_id}")).status_code == 403
    assert (await client.patch(f"/v1/workers/{lab.worker_id}")).status_code == 403


@pytest.mark.parametrize(
    ("value", "status", "word"),
    [
        ("nonsense", 422, HEADER),
        ("{}", 422, HEADER),
        ("[1]", 422, HEADER),
        ('["a", "b b"]', 422, "scopes.1"),
        ('["queue:**"]', 422, "**"),
        ('["*"]', 403, "*"),
        ('["queue:read:other"]', 403, "queue:read:other"),
        ('["queue:read:lab", "queue:read:other"]', 403, "queue:read:other"),
        ('["queue:read:lab"]', 200, ""),
        ("[]", 200, ""),
    ],
)
async def test_the_header_narrows_to_what_is_held_c8_g9(scoped: Scoped, value: str, status: int, word: str) -> None:
    client = await scoped("queue:read:lab", "queue:control-task:lab")

    answer = await client.get("/v1/whoami", headers={HEADER: value})

    assert answer.status_code == status, answer.text
    if status == 200:
        said: dict[str, Any] = answer.json()
        assert (said["scopes"], said["may_write"]) == (["queue:read:lab"] if value != "[]" else [], False)
    else:
        assert word in answer.json()["detail"]


async def test_the_header_stands_once_and_narrows_a_session_too_c8(served: Served, alice: httpx.AsyncClient) -> None:
    twice = await alice.get("/v1/whoami", headers=[(HEADER, '["queue:read:a"]'), (HEADER, '["queue:read:b"]')])
    assert (twice.status_code, problem(twice)) == (422, "validation-error")
    room = await make_room(alice)
    task = await room.submit()

    async with connected(served, token_of(alice), {HEADER: '["queue:read:lab"]'}) as socket:
        who = await socket.call("whoami")
        assert (await socket.call("get", id=task["id"]))["id"] == task["id"]
        assert await socket.refused("action", id=task["id"], action="cancel") == "forbidden"

    assert (who["user"], who["scopes"], who["may_write"]) == ("alice", ["queue:read:lab"], False)


@pytest.mark.parametrize(
    ("scopes", "writes"),
    [
        (["queue:read:lab"], False),
        (["queue:read:*", "aws:s3"], False),
        (["queue:read:lab", "queue:control-task:lab"], True),
        (["queue:*"], True),
        (["q*"], True),
        (["queue:claim-task:x/0"], True),
    ],
)
async def test_whoami_tells_the_scopes_and_whether_anything_may_be_written_c8(
    scoped: Scoped, scopes: list[str], writes: bool
) -> None:
    said = (await (await scoped(*scopes)).get("/v1/whoami")).json()

    assert said == {
        "user": "sam",
        "superuser": False,
        "scopes": sorted(scopes),
        "may_write": writes,
        "expires_at": None,
    }


async def test_the_scope_of_everything_makes_a_superuser_c8(scoped: Scoped) -> None:
    said = (await (await scoped("*", "queue:read:lab")).get("/v1/whoami")).json()

    assert (said["superuser"], said["scopes"]) == (True, ["*"])


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"scopes": []}, "leave it out"),
        ({"scopes": ["a**"]}, "**"),
        ({"scopes": ["a b"]}, "space"),
        ({"scopes": ["queue:claim-wrok:*"]}, "write queue:claim-work:<pool>"),
        ({"scopes": ["queue:read:lab"], "superuser": True}, "superuser"),
        ({"scopes": ["x"] * 101}, "100"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "past"),
    ],
)
async def test_a_token_that_makes_no_sense_is_not_made_g9(
    root: httpx.AsyncClient, given: dict[str, Any], word: str
) -> None:
    answer = await root.post("/v1/tokens", json={"name": "x", **given})

    assert (answer.status_code, problem(answer)) == (422, "validation-error")
    assert word in answer.json()["detail"]
    assert (await root.get("/v1/tokens")).json()["total"] == 1


async def test_a_task_is_given_no_scope_that_would_allow_nothing_g9(alice: httpx.AsyncClient) -> None:
    room = await make_room(alice)
    task = await room.submit()
    wrong = {"scopes": ["queue:raed:lab"]}
    schedule = {"job": "lab:tasks:add", "interval": 60, "payload": {"n": 1}, **wrong}

    for answer in (
        await alice.post("/v1/rooms/lab/tasks/lab:tasks:add", json={"payload": {"n": 1}, **wrong}),
        await alice.post(
            "/v1/rooms/lab/tasks", json={"tasks": [{"job": "lab:tasks:add", "payload": {"n": 1}, **wrong}]}
        ),
        await alice.patch(f"/v1/tasks/{task['id']}", json=wrong),
        await alice.put("/v1/rooms/lab/schedules/s", json=schedule),
    ):
        assert (answer.status_code, problem(answer)) == (422, "validation-error")
        assert "write queue:read:<room>" in answer.json()["detail"]
