"""Submitting, listing, waiting for, editing and steering tasks."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import pytest

from tests.api.rooms import Room, make_room, problem, until
from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.testing import Served


async def test_the_same_id_with_the_same_content_gives_the_first_task(lab: Room):
    """G6."""
    given = {"id": str(uuid4()), "payload": {"n": 1, "m": [1, 2]}, "priority": 3}
    url = f"/v1/rooms/lab/tasks/{lab.job}"

    first = await lab.client.post(url, json=given)
    again = await lab.client.post(
        url, json={"priority": 3, "payload": {"m": [1, 2], "n": 1}, "id": given["id"].upper()}
    )
    other_payload = await lab.client.post(url, json={**given, "payload": {"n": 2}})
    other_options = await lab.client.post(url, json={**given, "priority": 4})

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json()
    assert "retry-after" not in again.headers
    for answer in (other_payload, other_options):
        assert (answer.status_code, problem(answer)) == (409, "task-conflict")
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 1


async def test_the_same_id_gives_the_first_task_though_the_jobs_schema_was_replaced_since_g6(lab: Room):
    first = {"id": str(uuid4()), "payload": {"n": 1}}
    url = f"/v1/rooms/lab/tasks/{lab.job}"
    await lab.client.post(url, json=first)
    job = {"category": "tasks", "name": "add", "schema": {"required": ["m"]}, "replace": True}
    await lab.client.put("/v1/rooms/lab/jobs", json=job)

    again = await lab.client.post(url, json=first)
    other = await lab.client.post(url, json={**first, "payload": {"n": 2}})
    new = await lab.client.post(url, json={**first, "id": str(uuid4())})
    good = {"job": lab.job, "payload": {"m": 1}}
    many = await lab.client.post("/v1/rooms/lab/tasks", json={"tasks": [good, {"job": lab.job, **first}]})
    bad = await lab.client.post("/v1/rooms/lab/tasks", json={"tasks": [{"job": lab.job, **first}, {"job": lab.job}]})

    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert (other.status_code, problem(other)) == (409, "task-conflict")
    assert (new.status_code, problem(new)) == (422, "invalid-payload")
    assert [task["id"] == first["id"] for task in many.json()["tasks"]] == [False, True]
    assert (bad.status_code, bad.json()["detail"]) == (422, 'tasks.1.payload: "m" is a required property')


async def test_a_payload_that_does_not_satisfy_the_schema_is_refused_with_its_path(lab: Room):
    wrong = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": "one"}})
    many = {"tasks": [{"job": lab.job, "payload": {"n": 1}}, {"job": lab.job, "payload": {}}]}
    one_of_many = await lab.client.post("/v1/rooms/lab/tasks", json=many)

    assert (wrong.status_code, problem(wrong)) == (422, "invalid-payload")
    assert wrong.json()["errors"][0]["loc"] == ["payload", "n"]
    assert (one_of_many.status_code, problem(one_of_many)) == (422, "invalid-payload")
    assert one_of_many.json()["detail"].startswith("tasks.1.payload")
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0


async def test_many_tasks_are_submitted_at_once_with_their_positions(lab: Room):
    """Z14."""
    tasks = [{"job": lab.job, "payload": {"n": n}, "priority": n % 2} for n in range(6)]

    answer = await lab.client.post("/v1/rooms/lab/tasks", json={"tasks": tasks})

    assert answer.status_code == 202
    places = {task["payload"]["n"]: (await lab.get(task["id"]))["queue_position"] for task in answer.json()["tasks"]}
    assert places == {1: 1, 3: 2, 5: 3, 0: 4, 2: 5, 4: 6}


async def test_positions_follow_cancels_and_changes_of_priority(lab: Room):
    """Z14: 1-based, null unless pending, distinct for equal times."""
    tasks = [await lab.submit(n) for n in range(4)]
    assert [task["queue_position"] for task in tasks] == [1, 2, 3, 4]

    await lab.client.post(f"/v1/tasks/{tasks[0]['id']}/cancel")
    edited = await lab.client.patch(f"/v1/tasks/{tasks[3]['id']}", json={"priority": 1})

    assert (edited.status_code, edited.json()["queue_position"]) == (200, 1)
    assert [(await lab.get(task["id"]))["queue_position"] for task in tasks] == [None, 2, 3, 1]


async def test_lists_are_pages_newest_first(lab: Room):
    """Z17."""
    ids = [(await lab.submit(n))["id"] for n in range(5)][::-1]

    page = (await lab.client.get("/v1/rooms/lab/tasks?limit=2")).json()
    behind = (await lab.client.get(f"/v1/rooms/lab/tasks?limit=2&cursor={page['next_cursor']}")).json()
    offset = (await lab.client.get("/v1/rooms/lab/tasks?limit=2&offset=4")).json()
    empty = (await lab.client.get("/v1/rooms/lab/tasks?limit=0")).json()

    assert [task["id"] for task in page["items"]] == ids[:2]
    assert [task["id"] for task in behind["items"]] == ids[2:4]
    assert ([task["id"] for task in offset["items"]], offset["next_cursor"]) == (ids[4:], None)
    assert (empty["items"], empty["total"]) == ([], 5)
    assert (page["total"], page["limit"], page["offset"], page["total_is_capped"]) == (5, 2, 0, False)


@pytest.mark.parametrize(
    "query",
    ["limit=501", "limit=-1", "limit=x", "limit=", "offset=-1", "offset=1e9", "cursor=x", "cursor=c2VxOi0x",
     "cursor=%00", "status=nope", "status=", "status=,",
     "worker=%00", "tag=%00", "text=", "cursor=c2VxOjE&offset=1", "limit=%D9%A3"],
)  # fmt: skip
async def test_a_query_that_can_not_be_meant_is_refused(root: httpx.AsyncClient, query: str):
    """Z17, G9."""
    answer = await root.get(f"/v1/tasks?{query}")

    assert (answer.status_code, problem(answer)) == (422, "validation-error")


async def test_tasks_are_filtered_by_status_job_target_worker_tag_and_text(root: httpx.AsyncClient):
    """T9."""
    lab, den = await make_room(root), await make_room(root, "den", "sub")
    plain = await lab.submit(1)
    tagged = await lab.submit(2, tags={"kind": "big=one", "x": "y"})
    aimed = await den.submit(3, target="gpu")
    spelt = await den.submit(4, unique_key="k")
    await lab.client.post(f"/v1/tasks/{plain['id']}/pause")
    claimed = (await den.claim())["task"]
    assert claimed["id"] == aimed["id"]

    async def found(query: str) -> list[str]:
        page = (await root.get(f"/v1/tasks?{query}")).json()
        assert page["total"] == len(page["items"])
        return [task["id"] for task in page["items"]]

    assert await found("status=paused") == [plain["id"]]
    assert await found("status=paused,claimed") == [aimed["id"], plain["id"]]
    assert await found("status=paused&status=pending") == [spelt["id"], tagged["id"], plain["id"]]
    assert await found(f"job={den.job}&status=pending") == [spelt["id"]]
    assert await found("job=den:tasks:none") == await found("job=nonsense") == []
    assert await found("target=gpu") == [aimed["id"]]
    assert await found(f"worker={den.worker_id}") == [aimed["id"]]
    assert await found("tag=kind") == await found("tag=kind%3Dbig%3Done") == [tagged["id"]]
    assert await found("tag=kind%3Dother") == await found("tag=nope") == []
    assert await found("room=den") == [spelt["id"], aimed["id"]]
    assert await found(f"text={tagged['id'][9:]}") == [tagged["id"]]
    assert await found(f"id={tagged['id'][:30].upper()}") == await found(f"id={tagged['id']}") == [tagged["id"]]
    assert await found("id=ffff") == []
    assert await found("text=DEN:tasks") == [spelt["id"], aimed["id"]]
    assert await found("text=%25") == []


async def test_what_waits_for_a_target_names_who_holds_it(lab: Room):
    """L7."""
    first, second = await lab.submit(1, target="gpu"), await lab.submit(2, target="gpu")
    await lab.start()

    assert (await lab.get(second["id"]))["blocked_by"] == [first["id"]]
    assert (await lab.get(first["id"]))["blocked_by"] is None


async def test_a_deadline_before_the_task_is_due_is_refused(lab: Room):
    """C11: it could never run, whether it is due at a time or after a delay."""
    soon = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    later = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()

    url, payload = f"/v1/rooms/lab/tasks/{lab.job}", {"n": 1}
    for due in ({"scheduled_at": later}, {"delay": 60}):
        refused = await lab.client.post(url, json={"payload": payload, "deadline": soon, **due})
        assert (refused.status_code, problem(refused)) == (422, "validation-error")
        assert "could never run" in refused.json()["detail"]
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0

    given = {"id": str(uuid4()), "payload": payload, "deadline": later, "delay": 30}
    assert (await lab.client.post(url, json=given)).status_code == 202
    assert (await lab.client.post(url, json=given)).status_code == 200


async def test_a_long_poll_is_woken_by_the_end_of_the_task(served: Served, lab: Room, monkeypatch: pytest.MonkeyPatch):
    """Z15: the answer says that it was waited for."""
    task = await lab.submit()
    await lab.start()
    waits, waiting = served.app.state.ctx.waits, asyncio.Event()
    until_over = waits.until_over

    async def noted(task_id: TaskId, seconds: float, read: Callable[[], Awaitable[Task]]) -> bool:
        async def looked() -> Task:
            found = await read()
            waiting.set()
            return found

        return await until_over(task_id, seconds, looked)

    monkeypatch.setattr(waits, "until_over", noted)
    poll = asyncio.create_task(lab.client.get(f"/v1/tasks/{task['id']}", headers={"Prefer": "wait=20"}))
    await waiting.wait()

    await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/completed", json={"result": 1})
    answer = await poll

    assert (answer.status_code, answer.json()["status"]) == (200, "completed")
    assert answer.headers["preference-applied"] == "wait=20"


async def test_a_long_poll_of_a_task_that_is_over_answers_at_once(lab: Room):
    """Z15: and does not say that it waited."""
    task = await lab.submit()
    await lab.client.post(f"/v1/tasks/{task['id']}/cancel")
    began = time.monotonic()

    answer = await lab.client.get(f"/v1/tasks/{task['id']}", headers={"Prefer": "respond-async, wait=600"})

    assert "preference-applied" not in answer.headers
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("wait", ["wait=0", "wait=-1", "wait=soon", "wait", "", "waiting=5", "wait=1.5"])
async def test_a_wait_that_is_no_number_is_ignored(lab: Room, wait: str):
    """Z15."""
    task = await lab.submit()

    answer = await lab.client.get(f"/v1/tasks/{task['id']}", headers={"Prefer": wait})

    assert (answer.status_code, answer.json()["status"]) == (200, "pending")
    assert "preference-applied" not in answer.headers


async def test_a_long_poll_whose_client_has_gone_leaves_nothing_behind(served: Served, lab: Room):
    """Z15: neither a waiter nor a connection of the database."""
    task = await lab.submit()
    waits = served.app.state.ctx.waits
    poll = asyncio.create_task(lab.client.get(f"/v1/tasks/{task['id']}", headers={"Prefer": "wait=25"}))
    await until(lambda: waits._events)

    poll.cancel()

    await until(lambda: not waits._events)


async def test_the_verbs_follow_the_table_of_transitions(lab: Room):
    """Z7: everything else is a 409."""
    task = await lab.submit()
    url = f"/v1/tasks/{task['id']}"

    for action, expected in (
        ("resume", 409),
        ("rerun", 409),
        ("resolve", 409),
        ("pause", "paused"),
        ("pause", 409),
        ("resume", "pending"),
        ("cancel", "cancelled"),
        ("cancel", 409),
        ("resume", 409),
        ("rerun", "pending"),
        ("pause", "paused"),
        ("resolve", "completed"),
        ("resolve", 409),
    ):
        answer = await lab.client.post(f"{url}/{action}")
        if isinstance(expected, int):
            assert (answer.status_code, problem(answer)) == (expected, "invalid-task-transition"), action
        else:
            assert (answer.status_code, answer.json()["status"]) == (200, expected), action


async def test_an_unknown_status_is_a_validation_error_and_an_impossible_one_a_conflict(lab: Room):
    """Z7."""
    task = await lab.submit()
    url = f"/v1/tasks/{task['id']}"

    unknown = await lab.client.patch(url, json={"status": "flying"})
    assert (unknown.status_code, problem(unknown)) == (422, "validation-error")
    for status in ("pending", "scheduled", "claimed", "running", "completed", "failed", "paused"):
        answer = await lab.client.patch(url, json={"status": status})
        assert (answer.status_code, problem(answer)) == (409, "invalid-task-transition"), status
    assert (await lab.get(task["id"]))["version"] == task["version"]


async def test_a_verb_with_an_old_version_changes_nothing(lab: Room):
    task = await lab.submit()
    url = f"/v1/tasks/{task['id']}"
    await lab.client.patch(url, json={"priority": 1})

    stale = await lab.client.post(f"{url}/cancel", json={"if_version": task["version"]})
    fresh = await lab.client.post(f"{url}/cancel", json={"if_version": task["version"] + 1})

    assert (stale.status_code, problem(stale)) == (409, "task-conflict")
    assert fresh.json()["status"] == "cancelled"


async def test_an_edit_is_checked_and_moves_the_task(lab: Room):
    """E9."""
    task = await lab.submit(1)
    url = f"/v1/tasks/{task['id']}"

    later = await lab.client.patch(url, json={"scheduled_at": "2999-01-01T00:00:00+02:00", "tags": {"a": "b"}})
    assert (later.json()["status"], later.json()["tags"]) == ("scheduled", {"a": "b"})
    assert later.json()["scheduled_at"] == "2998-12-31T22:00:00Z"
    again = await lab.client.patch(url, json={"scheduled_at": "2020-01-01T00:00:00Z", "payload": {"n": 2}, "weight": 2})
    assert (again.json()["status"], again.json()["payload"], again.json()["weight"]) == ("pending", {"n": 2}, 2)
    wrong = await lab.client.patch(url, json={"payload": {"n": "x"}})
    assert (wrong.status_code, problem(wrong)) == (422, "invalid-payload")
    for given in ({}, {"priority": None}, {"result": 1}, {"status": "cancelled", "priority": 1}, {"payload": None}):
        answer = await lab.client.patch(url, json=given)
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), given


async def test_one_verb_acts_on_many_by_ids_or_by_filter(lab: Room):
    ids = [(await lab.submit(n))["id"] for n in range(4)]
    unknown = str(uuid4())

    named = await lab.client.post("/v1/tasks/actions", json={"action": "pause", "ids": [ids[0], unknown, ids[0]]})
    filtered = await lab.client.post("/v1/tasks/actions", json={"action": "cancel", "filter": {"status": ["pending"]}})
    undone = await lab.client.post(
        "/v1/tasks/actions",
        json={"action": "rerun", "ids": ids[1:], "if_versions": {**filtered.json()["versions"], ids[1]: 99}},
    )

    assert (named.json()["matched"], named.json()["changed"]) == (2, 1)
    assert named.json()["problems"][0]["id"] == unknown
    assert named.json()["problems"][0]["type"] == "/v1/problems/task-not-found"
    assert filtered.json()["changed"] == 3
    assert undone.json()["changed"] == 2
    assert undone.json()["problems"][0]["type"] == "/v1/problems/task-conflict"


async def test_a_resolve_takes_a_result_or_an_error(lab: Room):
    """L8."""
    task = await lab.submit()
    await lab.client.post(f"/v1/tasks/{task['id']}/pause")

    answer = await lab.client.post(f"/v1/tasks/{task['id']}/resolve", json={"status": "failed", "error": "gave up"})

    assert (answer.json()["status"], answer.json()["error"], answer.json()["settled"]) == ("failed", "gave up", True)


async def test_a_unique_key_gives_the_open_task_that_holds_it(lab: Room):
    first = await lab.submit(1, unique_key="k")

    answer = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 2}, "unique_key": "k"})

    assert (answer.status_code, answer.json()["id"]) == (200, first["id"])


async def test_a_submit_after_a_change_of_schema_is_checked_against_the_new_one(served: Served, lab: Room):
    """The catalog may be behind: the writer says so, and the payload is checked anew."""
    await lab.submit(1)
    catalog = served.app.state.ctx.catalog
    old = catalog._jobs.get(lab.job)
    schema = {"type": "object", "required": ["m"]}
    await lab.client.put(
        "/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "schema": schema, "replace": True}
    )
    catalog._jobs.put(lab.job, old, old.size)

    wrong = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 1}})
    right = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"m": 1}})

    assert (wrong.status_code, problem(wrong)) == (422, "invalid-payload")
    assert right.status_code == 202


async def test_integers_of_any_size_come_back_digit_by_digit(root: httpx.AsyncClient):
    await root.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "any"})
    number = 10**300 + 7

    answer = await root.post("/v1/rooms/lab/tasks/lab:tasks:any", content=f'{{"payload": {{"n": {number}}}}}')

    assert (await root.get(f"/v1/tasks/{answer.json()['id']}")).json()["payload"] == {"n": number}
