"""What a token with scopes sees: lists, counts, topics and events filter by room; the rest is not there (Z3, C8)."""

from typing import Any

import httpx
import pytest

from tests.api.rooms import Room, Scoped, make_room, problem, token_of
from tests.live.sockets import Socket, connected
from treadle_server.testing import Served


async def ids(client: httpx.AsyncClient, path: str, **query: Any) -> list[str]:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    items = [str(item["id"]) for item in answer.json()["items"]]
    assert answer.json()["total"] == len(items)
    return items


@pytest.fixture
async def three(root: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """A task in each of three rooms, of the room's own job, and of each a task of the shared job."""
    shared = await make_room(root, "@global", "shared")
    tasks = {}
    for room in ("lab", "LAB", "lab2"):
        own = await make_room(root, room)
        tasks[room] = await own.submit(target="t")
        tasks[f"{room} shared"] = await Room(root, room, shared.job, shared.worker_id).submit()
    return tasks


@pytest.mark.parametrize(
    ("scope", "rooms"),
    [
        ("queue:read:lab", {"lab"}),
        ("queue:read:lab*", {"lab", "lab2"}),
        ("queue:read:@global", set()),
        ("queue:read:l_b*", set()),
        ("queue:read:*", {"lab", "LAB", "lab2"}),
        ("queue:*", {"lab", "LAB", "lab2"}),
        ("queue:create-task:lab/*", set()),
    ],
)
async def test_lists_and_their_totals_have_what_the_scopes_reach_c8_z3(
    three: dict[str, dict[str, Any]], scoped: Scoped, scope: str, rooms: set[str]
) -> None:
    client = await scoped(scope)
    mine = {task["id"] for name, task in three.items() if name.split()[0] in rooms}

    assert set(await ids(client, "/v1/tasks")) == mine
    assert set(await ids(client, "/v1/tasks", job="@global:tasks:shared")) == {
        three[f"{room} shared"]["id"] for room in rooms
    }
    for room in ("lab", "LAB", "lab2"):
        own = {task["id"] for name, task in three.items() if name.split()[0] == room}
        assert set(await ids(client, f"/v1/rooms/{room}/tasks")) == (own if room in rooms else set())
        named = await client.get("/v1/tasks", params={"job": f"{room}:tasks:add"})
        assert named.json()["total"] == (1 if room in rooms else 0)
        targets = await client.get(f"/v1/rooms/{room}/targets")
        assert [target["name"] for target in targets.json()["items"]] == (["t"] if room in rooms else [])
        jobs = (await client.get(f"/v1/rooms/{room}/jobs")).json()["items"]
        assert {job["room_id"] for job in jobs} == ({room, "@global"} if room in rooms else set())
    window = (await client.post("/v1/tasks/window", json={"order": "position"})).json()
    assert ({item["id"] for item in window["items"]}, window["total"]) == (mine, len(mine))
    frozen = (await client.post("/v1/tasks/freeze", json={})).json()
    assert {item["id"] for item in frozen["items"]} == mine
    events = (await client.get("/v1/events")).json()["items"]
    assert {event["task"]["id"] for event in events if "task" in event} == mine
    for name, task in three.items():
        answer = await client.get(f"/v1/tasks/{task['id']}")
        assert answer.status_code == (200 if name.split()[0] in rooms else 404)


@pytest.mark.parametrize("scopes", [["queue:read:lab"], ["queue:read:lab", "queue:read:none"], ["queue:read:lab*"]])
@pytest.mark.parametrize("status", ["running", "claimed,running", "pending", None])
async def test_in_each_status_and_order_only_what_is_seen_is_listed_and_counted_c8(
    root: httpx.AsyncClient, scoped: Scoped, scopes: list[str], status: str | None
) -> None:
    mine, running = set(), []
    for room in ("lab", "other"):
        of_room = await make_room(root, room)
        tasks = [await of_room.submit() for _ in range(3)]
        running = [await of_room.start() for _ in range(2)]
        if room == "lab":
            started = {task["id"] for task in running}
            mine = {task["id"] for task in tasks if status is None or (task["id"] in started) == (status != "pending")}
    client = await scoped(*scopes)
    query = {} if status is None else {"status": status}
    statuses = None if status is None else status.split(",")

    assert set(await ids(client, "/v1/tasks", **query)) == mine
    for order in ("position", "newest", "oldest", "updated"):
        wanted = {"order": order, "filter": {"status": statuses}}
        page = (await client.post("/v1/tasks/window", json=wanted)).json()
        assert ({item["id"] for item in page["items"]}, page["total"]) == (mine, len(mine))
        after = (await client.post("/v1/tasks/window", json={**wanted, "after": running[0]["id"]})).json()
        assert {item["id"] for item in after["items"]} <= mine
        assert after["ahead"] <= len(mine)
    frozen = (await client.post("/v1/tasks/freeze", json={"filter": {"status": statuses}})).json()
    assert {item["id"] for item in frozen["items"]} == mine


async def test_an_unseen_task_is_answered_word_for_word_like_none_c8(
    three: dict[str, dict[str, Any]], scoped: Scoped
) -> None:
    client = await scoped("queue:read:other", "queue:control-task:other")
    unseen, none = three["lab"]["id"], three["lab"]["id"][:-4] + "0000"
    run = "runs/0"
    tries = [("GET", ""), ("GET", "/runs"), ("GET", "/logs"), ("GET", "/events"), ("POST", "/cancel"),
             ("POST", f"/{run}/started"), ("POST", f"/{run}/reclaim")]  # fmt: skip

    for method, tail in tries:
        said = []
        for task_id in (unseen, none):
            answer = await client.request(method, f"/v1/tasks/{task_id}{tail}")
            assert problem(answer) == "task-not-found"
            said.append(answer.text.replace(task_id, "ID"))
        assert said[0] == said[1]
    bulk = {"action": "cancel", "ids": [unseen, none]}
    problems = (await client.post("/v1/tasks/actions", json=bulk)).json()["problems"]
    assert [{**one, "id": "", "detail": one["detail"].replace(one["id"], "ID")} for one in problems] == [
        {"id": "", "outcome": "missing", "type": "/v1/problems/task-not-found", "detail": "there is no task ID",
         "version": None, "status": None}
    ] * 2  # fmt: skip


async def test_an_unseen_queue_is_answered_word_for_word_like_none_c8(
    three: dict[str, dict[str, Any]], scoped: Scoped
) -> None:
    client = await scoped("queue:read:other", "queue:control-task:other")
    unseen = three["lab"]["job_name"]
    said = []

    for job in (unseen, f"{unseen}-none"):
        answer = await client.patch(f"/v1/rooms/lab/jobs/{job}", json={"paused": True})
        assert problem(answer) == "job-not-found"
        said.append(answer.text.replace(job, "JOB"))

    assert said[0] == said[1]


async def test_what_other_rooms_do_with_a_shared_job_is_not_told_c8_z3(
    three: dict[str, dict[str, Any]], root: httpx.AsyncClient, scoped: Scoped
) -> None:
    client = await scoped("queue:read:lab")
    path = "/v1/rooms/lab/jobs/@global:tasks:shared"

    told, all_of_it = (await client.get(path)).json(), (await root.get(path)).json()

    assert (all_of_it["counts"], told["counts"]) == ({"pending": 3}, {})
    assert (told["oldest_pending_at"], told["history"], told["stats"]) == (None, None, None)
    stats = (await client.get("/v1/stats")).json()
    assert (stats["counts"], stats["jobs"]) == ({"pending": 1}, 2)


async def test_a_workers_jobs_and_runs_are_named_as_far_as_they_are_seen_c8(
    root: httpx.AsyncClient, scoped: Scoped
) -> None:
    lab = await make_room(root)
    more = {"category": "tasks", "name": "more", "worker_id": lab.worker_id}
    await root.put("/v1/rooms/other/jobs", json=more)
    for path in ("/v1/rooms/lab/tasks/lab:tasks:add", "/v1/rooms/other/tasks/other:tasks:more"):
        assert (await root.post(path, json={"payload": {"n": 1}})).status_code == 202
    claimed = (await lab.claim(tasks=5))["tasks"]
    assert len(claimed) == 2
    client = await scoped("queue:read:lab")

    worker = (await client.get(f"/v1/workers/{lab.worker_id}")).json()

    assert (worker["jobs"], worker["job_count"]) == (["lab:tasks:add"], 1)
    assert [run["job_name"] for run in worker["running"]] == ["lab:tasks:add"]
    assert worker["used"] == 2
    assert (await client.get("/v1/workers")).json()["items"][0]["jobs"] == ["lab:tasks:add"]
    stranger = await scoped("queue:read:third")
    assert (await stranger.get(f"/v1/workers/{lab.worker_id}")).status_code == 404
    assert (await stranger.get("/v1/workers")).json()["total"] == 0


@pytest.mark.parametrize("anchor", ["first", "after", "before"])
async def test_a_window_on_a_task_that_is_not_seen_is_one_on_none_c8(
    root: httpx.AsyncClient, served: Served, scoped: Scoped, anchor: str
) -> None:
    """Where it stands would tell that it is there, and in which state."""
    mine, other = await make_room(root), await make_room(root, "other")
    for _ in range(2):
        await mine.submit()
    hidden = await other.submit()
    await mine.submit()
    client = await scoped("queue:read:lab")
    named = {"hidden": hidden["id"], "none": "01a1fca0-0000-7000-8000-000000000000"}
    windows = {name: {anchor: task_id, "limit": 2, "order": "position"} for name, task_id in named.items()}

    asked = {name: (await client.post("/v1/tasks/window", json=one)).json() for name, one in windows.items()}
    async with connected(served, token_of(client)) as socket:
        watched = {name: await _rows(socket, "tasks", window=one) for name, one in windows.items()}

    assert asked["hidden"] == asked["none"]
    assert (asked["hidden"]["ahead"], watched["hidden"]["ahead"]) == (0, 0)
    assert [row["id"] for row in watched["hidden"]["rows"]] == [row["id"] for row in asked["none"]["items"]]


@pytest.mark.parametrize(
    ("scope", "mine"),
    [
        ("queue:worker-id:gpu/*", {"gpu/a", "gpu/b"}),
        ("queue:worker-id:gpu/a", {"gpu/a"}),
        ("queue:worker-id:-/b", {"-/b"}),
        ("queue:worker-id:gp_/*", set()),
        ("queue:w*", {"gpu/a", "gpu/b", "GPU/a", "-/b"}),
        ("queue:read:other", set()),
        ("queue:create-task:lab/*", set()),
    ],
)
async def test_a_users_own_workers_are_seen_with_a_token_that_may_be_them_c8(
    served: Served, scoped: Scoped, scope: str, mine: set[str]
) -> None:
    every, some = await scoped("queue:worker-id:*", "queue:claim-work:*"), await scoped(scope)
    named = {}
    for group, name in (("gpu", "a"), ("gpu", "b"), ("GPU", "a"), (None, "b")):
        made = await every.post("/v1/workers", json={"group": group, "name": name})
        named[f"{group or '-'}/{name}"] = str(made.json()["id"])
    wanted = {named[one] for one in mine}

    assert set(await ids(some, "/v1/workers")) == wanted
    for worker_id in named.values():
        answer = await some.get(f"/v1/workers/{worker_id}")
        assert answer.status_code == (200 if worker_id in wanted else 404)
    async with connected(served, token_of(every)) as all_of_them, connected(served, token_of(some)) as socket:
        assert {row["id"] for row in (await _rows(all_of_them, "workers"))["rows"]} == set(named.values())
        assert {row["id"] for row in (await _rows(socket, "workers"))["rows"]} == wanted


@pytest.mark.parametrize(
    ("scope", "is_seen"),
    [
        ("queue:create-task:lab/lab:tasks:add", True),
        ("queue:create-task:lab/*", True),
        ("queue:create-task:l*", True),
        ("queue:create-task:lab2/*", False),
        ("queue:create-task:la/*", False),
        ("queue:read:other", False),
        ("queue:worker-id:*", False),
    ],
)
async def test_a_users_own_flow_is_seen_with_a_token_that_may_submit_from_its_room_c8(
    root: httpx.AsyncClient, served: Served, scoped: Scoped, scope: str, is_seen: bool
) -> None:
    await make_room(root)
    submitter, client = await scoped("queue:create-task:lab/*"), await scoped(scope)
    options = {"payload": {"n": 1}, "flow_name": "nightly"}
    flow_id = (await submitter.post("/v1/rooms/lab/tasks/lab:tasks:add", json=options)).json()["flow_id"]

    assert (await client.get(f"/v1/flows/{flow_id}")).status_code == (200 if is_seen else 404)
    assert (await client.post(f"/v1/flows/{flow_id}/pause")).status_code == (200 if is_seen else 404)
    async with connected(served, token_of(client)) as socket:
        assert ("ok" in await socket.ask("get_flow", id=flow_id)) is is_seen


async def _rows(socket: Socket, topic: str, **more: Any) -> dict[str, Any]:
    await socket.call("watch", sub=topic, topic=topic, **more)
    return await socket.pushed("snapshot", sub=topic)


async def test_topics_show_what_the_scopes_reach_and_share_nothing_with_those_who_see_more_c8(
    three: dict[str, dict[str, Any]], served: Served, scoped: Scoped
) -> None:
    reader, nobody = await scoped("queue:read:lab"), await scoped("queue:read:none")
    mine = {three["lab"]["id"], three["lab shared"]["id"]}
    async with (
        connected(served) as everything,
        connected(served, token_of(reader)) as some,
        connected(served, token_of(nobody)) as nothing,
    ):
        for socket, tasks, jobs, targets, workers in (
            (everything, 6, 4, 3, 4),
            (some, 2, 2, 1, 2),
            # From any room that is read, the jobs of the shared rooms are seen, and who serves them.
            (nothing, 0, 1, 0, 1),
        ):
            assert (await _rows(socket, "tasks"))["total"] == tasks
            assert len((await _rows(socket, "jobs"))["rows"]) == jobs
            assert len((await _rows(socket, "counts"))["rows"]) == jobs
            assert len((await _rows(socket, "targets"))["rows"]) == targets
            assert len((await _rows(socket, "workers"))["rows"]) == workers
        assert {row["id"] for row in (await _rows(some, "tasks"))["rows"]} == mine
        counted = {row["job"]: row["counts"] for row in (await _rows(some, "counts"))["rows"]}
        assert counted == {"lab:tasks:add": {"pending": 1}, "@global:tasks:shared": {}}
        for socket, rows in ((everything, 1), (some, 0)):
            one = await _rows(socket, "task", task_id=three["lab2"]["id"])
            assert len(one["rows"]) == rows
        for socket, rows in ((everything, 2), (some, 0)):
            assert (await _rows(socket, "tasks", room="lab2"))["total"] == rows


@pytest.mark.parametrize("brief", [False, True])
async def test_events_and_results_of_other_rooms_are_not_pushed_c8(
    root: httpx.AsyncClient, served: Served, scoped: Scoped, brief: bool
) -> None:
    lab, other = await make_room(root), await make_room(root, "other")
    before = await other.submit()
    reader = await scoped("queue:read:lab")
    async with connected(served, token_of(reader)) as socket:
        await socket.call("every", on=True, brief=brief, recent=200 if brief else 0)
        hidden, shown = await other.submit(), await lab.submit()
        answer = await socket.call("await", ids=[hidden["id"], shown["id"]])
        for task in (hidden, shown):
            assert (await root.post(f"/v1/tasks/{task['id']}/cancel")).status_code == 200
        # The result of what is seen comes last; whatever were pushed of the other stands before it.
        results = (await socket.pushed("result"))["tasks"]
        told = [event for push in socket.pushes if push["push"] == "events" for event in push["events"]]

    assert answer["missing"] == [hidden["id"]]
    assert [task["id"] for task in results] == [shown["id"]]
    named = {event["task"]["id"] for event in told if "task" in event}
    assert named == {shown["id"]}
    assert before["id"] not in named
    assert {event["job"]["room_id"] for event in told if event["type"] == "job.updated"} <= {"lab"}
    assert not [event for event in told if event["type"] == "worker.updated" or event.get("room") == "other"]


async def test_a_bulk_action_by_filter_reaches_what_is_seen_alone_c8(
    three: dict[str, dict[str, Any]], root: httpx.AsyncClient, scoped: Scoped
) -> None:
    client = await scoped("queue:read:lab", "queue:control-task:*")

    result = (await client.post("/v1/tasks/actions", json={"action": "cancel", "filter": {}})).json()

    assert (result["matched"], result["changed"]) == (2, 2)
    assert (await root.get("/v1/tasks", params={"status": "pending"})).json()["total"] == 4


async def test_who_submitted_a_task_sees_and_steers_it_without_reading_the_room_c8(
    three: dict[str, dict[str, Any]], scoped: Scoped
) -> None:
    client = await scoped("queue:create-task:lab/lab:tasks:add")
    task = (await client.post("/v1/rooms/lab/tasks/lab:tasks:add", json={"payload": {"n": 1}})).json()

    assert (await client.get(f"/v1/tasks/{task['id']}")).json()["submitter"] == "sam"
    assert (await client.post(f"/v1/tasks/{task['id']}/pause")).status_code == 200
    assert (await client.get("/v1/tasks")).json()["total"] == 0
    # The same user, by a token that may not submit it: neither.
    another = await scoped("queue:create-task:lab2/*")
    assert (await another.get(f"/v1/tasks/{task['id']}")).status_code == 404
    narrow = {"Treadle-Authorized-Scopes": "[]"}
    assert (await client.get(f"/v1/tasks/{task['id']}", headers=narrow)).status_code == 404


async def test_a_unique_key_leads_to_no_task_that_is_not_seen_c8(root: httpx.AsyncClient, scoped: Scoped) -> None:
    await make_room(root, "@global", "shared")
    path, given = "/v1/rooms/{}/tasks/@global:tasks:shared", {"payload": {"n": 1}, "unique_key": "k"}
    assert (await root.post(path.format("secret"), json=given)).status_code == 202
    client = await scoped("queue:create-task:lab/*")

    answer = await client.post(path.format("lab"), json=given)

    assert (answer.status_code, problem(answer)) == (409, "task-conflict")
    assert "secret" not in answer.text


async def test_nothing_is_told_of_an_unseen_schedule_to_who_wants_it_as_it_is_c8(
    root: httpx.AsyncClient, scoped: Scoped
) -> None:
    """Its owner, its next tick and its last task stood in the answer to whoever said what it says already."""
    lab = await make_room(root, "lab", retain=True)
    wanted = {"job": lab.job, "payload": {"n": 1}, "interval": 3600, "content_hash": "c"}
    path = "/v1/rooms/lab/schedules/nightly"
    made = (await root.put(path, json=wanted)).json()
    submits = "queue:create-task:lab/*"
    stranger, reader = await scoped(submits), await scoped(submits, "queue:read:lab", name="ann")
    same = [wanted, {**wanted, "payload": {"n": 2}}, {**wanted, "if_version": 7}]

    said = {(await stranger.put(path, json=one)).text for one in [*same, {**wanted, "content_hash": "d"}]}

    assert len(said) == 1
    assert problem(await stranger.put(path, json=wanted)) == "schedule-not-found"
    assert (await reader.put(path, json=wanted)).json() == made
