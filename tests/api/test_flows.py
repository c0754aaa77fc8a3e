"""F2, F3: tasks that wait for tasks and flows, over plain HTTP."""

from datetime import datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.rooms import NewUser, Room, Scoped, make_room, problem
from tests.clients import client_at
from treadle_server.engine.commands import TellWaiters
from treadle_server.operations import carrying
from treadle_server.store.read import dependencies
from treadle_server.testing import Served

ADDS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "parts": {"type": "array"}},
    "required": ["n"],
    "additionalProperties": False,
}


async def put(room: Room, *items: dict[str, Any]) -> httpx.Response:
    """Submit tasks in one request, each with a payload unless it has one."""
    tasks = [{"job": room.job, "payload": {"n": 0}, **item} for item in items]
    return await room.client.post(f"/v1/rooms/{room.room}/tasks", json={"tasks": tasks})


async def flow_of(room: Room, *items: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await put(room, *items)
    assert answer.status_code == 202, answer.text
    return answer.json()["tasks"]  # type: ignore[no-any-return]


async def finish(room: Room, kind: str = "completed", **said: Any) -> dict[str, Any]:
    """Run the next pending task to its end, and let those follow that wait for it."""
    task = await room.start()
    answer = await room.client.post(f"/v1/tasks/{task['id']}/runs/{task['run_id']}/{kind}", json=said)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def settled(served: Served) -> None:
    """Let all follow that wait for what has ended."""
    while await served.engine.run(TellWaiters()):
        pass


async def act(room: Room, flow_id: str, verb: str) -> dict[str, Any]:
    answer = await room.client.post(f"/v1/flows/{flow_id}/{verb}")
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def statuses(room: Room, tasks: list[dict[str, Any]]) -> list[str]:
    return [(await room.get(task["id"]))["status"] for task in tasks]


async def test_f2_a_task_is_submitted_to_wait_for_another_by_its_id(served: Served, lab: Room):
    first = await lab.submit(1)

    second = await lab.submit(2, depends_on={"first": first["id"]})

    assert (second["status"], second["waits_for"], second["queue_position"]) == ("blocked", 1, None)
    assert (await lab.get(second["id"]))["depends_on"] == {"first": first["id"]}
    await finish(lab, result=5)
    await settled(served)
    claim = (await lab.claim())["task"]
    assert claim["id"] == second["id"]
    assert claim["dependencies"] == {"first": {"id": first["id"], "status": "completed", "result": 5}}


async def test_f2_two_refs_may_be_one_task_which_has_the_unique_key_of_both(served: Served, lab: Room):
    first, second, last = await flow_of(
        lab,
        {"ref": "a", "unique_key": "k"},
        {"ref": "b", "unique_key": "k"},
        {"depends_on": {"x": ["b", "a"], "y": "b"}},
    )

    assert (second["id"], last["waits_for"]) == (first["id"], 1)
    await finish(lab, result=1)
    await settled(served)
    found = (await lab.claim())["task"]["dependencies"]
    assert ([one["result"] for one in found["x"]], found["y"]["result"]) == ([1, 1], 1)


async def test_f2_a_whole_flow_is_one_request_whose_tasks_name_each_other(served: Served, lab: Room):
    *pages, merged = await flow_of(
        lab,
        {"ref": "a", "payload": {"n": 1}},
        {"ref": "b", "payload": {"n": 2}},
        {"ref": "m", "depends_on": {"pages": ["b", "a"]}, "flow_name": "report"},
    )

    flow_id = merged["flow_id"]
    assert {task["flow_id"] for task in (*pages, merged)} == {flow_id}
    for n in (1, 2):
        await finish(lab, result=n)
    await settled(served)
    claim = (await lab.claim())["task"]
    assert [page["result"] for page in claim["dependencies"]["pages"]] == [2, 1]
    shown = (await lab.client.get(f"/v1/flows/{flow_id}")).json()
    assert (shown["name"], shown["total"], shown["counts"]) == ("report", 3, {"claimed": 1, "completed": 2})
    assert shown["progress"] == pytest.approx(2 / 3)
    assert [task["id"] for task in shown["tasks"]] == [task["id"] for task in (*pages, merged)]
    assert {(edge["task_id"], edge["needs_id"]) for edge in shown["edges"]} == {
        (merged["id"], page["id"]) for page in pages
    }
    listed = (await lab.client.get("/v1/tasks", params={"flow": flow_id})).json()
    assert listed["total"] == 3
    [only] = (await lab.client.get("/v1/flows", params={"room": "lab"})).json()["items"]
    assert (only["id"], only["total"]) == (flow_id, 3)


async def test_f2_a_task_may_stand_before_those_that_it_waits_for(lab: Room):
    last, first = await flow_of(lab, {"ref": "z", "depends_on": {"x": "a"}}, {"ref": "a"})

    assert (last["status"], first["status"]) == ("blocked", "pending")


async def test_f2_a_circle_is_refused_and_shown_and_nothing_is_put_in(lab: Room):
    refused = await put(
        lab,
        {"ref": "free"},
        {"ref": "a", "depends_on": {"x": "b"}},
        {"ref": "b", "depends_on": {"x": ["c"]}},
        {"ref": "c", "depends_on": {"x": "a"}},
    )

    assert (refused.status_code, problem(refused)) == (422, "dependency-cycle")
    assert "a -> b -> c -> a" in refused.json()["detail"]
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"depends_on": {"x": "nobody"}}, "tasks.0.depends_on.x: 'nobody'"),
        ({"depends_on": {"x": []}}, "depends_on"),
        ({"depends_on": {}}, "depends_on"),
        ({"depends_on": {"x": "a"}, "arguments_from": {"n": "y"}}, "'y' is not a name in depends_on"),
        ({"depends_on": {"x": "a"}, "arguments_from": {"n": "x"}}, "is also in the payload"),
        ({"on_dependency_failure": "shrug"}, "on_dependency_failure"),
        ({"flow_id": "mine"}, "flow_id"),
    ],
)
async def test_g9_what_is_wrong_with_a_flow_is_said_and_nothing_is_put_in(lab: Room, item, says):
    refused = await put(lab, item, {"ref": "a"})

    assert (refused.status_code, problem(refused)) == (422, "validation-error")
    assert says in refused.text
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0


async def test_g9_of_a_task_that_is_submitted_by_itself_the_place_is_its_own(lab: Room):
    refused = await lab.client.post(
        f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 1}, "depends_on": {"x": "nobody"}}
    )

    assert refused.json()["detail"].startswith("depends_on.x: 'nobody' is not a task id")


async def test_g9_refs_and_flows_that_contradict_each_other_are_refused(lab: Room):
    for items, says in (
        (({"ref": "a"}, {"ref": "a"}), "is given twice"),
        (({"flow_name": "x"}, {"flow_name": "y"}), "flow_name"),
        (({"flow_id": str(uuid4())}, {"flow_id": str(uuid4())}), "flow_id"),
    ):
        refused = await put(lab, *items)
        assert (refused.status_code, problem(refused)) == (422, "validation-error")
        assert says in refused.json()["detail"]


async def test_f2_what_is_not_there_or_not_read_is_not_found_and_nothing_is_put_in(lab: Room, scoped: Scoped):
    await make_room(lab.client, "attic")
    stranger = await scoped("queue:create-task:attic/*", "queue:read:attic", name="eve")
    mine = await lab.submit(1)
    there = Room(stranger, "attic", "attic:tasks:add", "")

    for needed in (str(uuid4()), mine["id"]):
        refused = await put(there, {"depends_on": {"x": needed}})
        assert (refused.status_code, problem(refused)) == (404, "task-not-found")


async def test_f2_a_ref_whose_unique_key_is_held_names_the_task_that_holds_it(served: Served, lab: Room):
    held = await lab.submit(1, unique_key="k")

    found, last = await flow_of(lab, {"ref": "a", "unique_key": "k"}, {"depends_on": {"x": "a"}})

    assert found["id"] == held["id"]
    assert (await lab.get(last["id"]))["depends_on"] == {"x": held["id"]}
    await finish(lab)
    await settled(served)
    assert await statuses(lab, [last]) == ["pending"]


async def test_g6_the_same_flow_again_is_the_same_tasks(lab: Room):
    ids = [str(uuid4()) for _ in range(2)]
    items = ({"id": ids[0], "ref": "a"}, {"id": ids[1], "depends_on": {"x": "a"}, "flow_id": str(uuid4())})
    first = await flow_of(lab, *items)

    again = await put(lab, *items)

    assert again.status_code == 200
    assert [task["id"] for task in again.json()["tasks"]] == [task["id"] for task in first] == ids


async def test_f2_a_flow_is_cancelled_paused_and_resumed_as_one(served: Served, lab: Room):
    tasks = await flow_of(
        lab, {"ref": "a"}, {"ref": "b", "depends_on": {"x": "a"}}, {"ref": "c", "depends_on": {"x": "b"}}
    )
    flow_id = tasks[0]["flow_id"]

    assert (await act(lab, flow_id, "pause"))["changed"] == 3
    assert await statuses(lab, tasks) == ["paused"] * 3
    assert (await act(lab, flow_id, "resume"))["changed"] == 3
    assert await statuses(lab, tasks) == ["pending", "blocked", "blocked"]
    assert (await act(lab, flow_id, "cancel"))["changed"] == 3
    await settled(served)

    assert [(await lab.get(task["id"]))["reason"] for task in tasks] == ["cancelled"] * 3
    assert (await act(lab, flow_id, "cancel"))["matched"] == 0


async def test_f2_the_failed_of_a_flow_run_again_and_then_what_they_had_cancelled(served: Served, lab: Room):
    done, failed, last = await flow_of(
        lab,
        {"ref": "a"},
        {"ref": "b", "depends_on": {"x": "a"}},
        {"ref": "c", "depends_on": {"x": "b"}},
    )
    await finish(lab)
    await settled(served)
    await finish(lab, "failed", error="boom")
    await settled(served)
    assert await statuses(lab, [done, failed, last]) == ["completed", "failed", "cancelled"]

    answer = await act(lab, done["flow_id"], "rerun-failed")

    assert answer["changed"] == 2
    await settled(served)
    assert await statuses(lab, [done, failed, last]) == ["completed", "pending", "blocked"]
    await finish(lab)
    await settled(served)
    assert await statuses(lab, [last]) == ["pending"]


async def test_f3_a_flow_tells_how_long_all_runs_of_its_tasks_took(served: Served, lab: Room):
    tried, _ = await flow_of(lab, {"ref": "a", "max_retries": 1, "retry_base": 0}, {"depends_on": {"x": "a"}})
    await finish(lab, "failed", error="boom")
    await finish(lab)

    shown = (await lab.client.get(f"/v1/flows/{tried['flow_id']}")).json()["tasks"]
    runs = (await lab.client.get(f"/v1/tasks/{tried['id']}/runs")).json()["items"]

    spans = [datetime.fromisoformat(run["ended_at"]) - datetime.fromisoformat(run["started_at"]) for run in runs]
    assert len(spans) == 2
    assert shown[0]["ran_seconds"] == pytest.approx(sum(span.total_seconds() for span in spans), abs=1e-6)
    assert shown[1]["ran_seconds"] == 0


async def test_f2_an_argument_that_comes_from_a_task_is_left_out_of_the_check(served: Served, root: httpx.AsyncClient):
    await root.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "sum", "schema": ADDS})
    room = await make_room(root)

    def item(**said: Any) -> dict[str, Any]:
        return {"job": "lab:tasks:sum", "depends_on": {"x": "a"}, "arguments_from": {"n": "x"}, "payload": {}, **said}

    for wrong in (item(payload={"parts": 3}), {"job": "lab:tasks:sum", "payload": {}}):
        assert problem(await put(room, {"ref": "a"}, wrong)) == "invalid-payload"
    unknown = await put(room, {"ref": "a"}, item(arguments_from={"m": "x"}))
    assert problem(unknown) == "validation-error"
    assert "has no such argument" in unknown.json()["detail"]

    _, waits = await flow_of(room, {"ref": "a"}, item())

    assert waits["arguments_from"] == {"n": "x"}
    edited = await room.client.patch(f"/v1/tasks/{waits['id']}", json={"payload": {"parts": [1]}})
    assert edited.status_code == 200
    twice = await room.client.patch(f"/v1/tasks/{waits['id']}", json={"payload": {"n": 1}})
    assert problem(twice) == "validation-error"


async def test_f2_results_that_are_too_large_together_are_left_out_and_the_credential_reads_each(
    served: Served, lab: Room, scoped: Scoped, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(carrying, "MOST_BYTES", 50)
    await flow_of(lab, {"ref": "a"}, {"depends_on": {"x": "a"}}, {})
    await finish(lab, result="y" * 60)
    await settled(served)
    other = (await lab.claim())["task"]
    claim = (await lab.claim())["task"]
    if not claim["dependencies"]:
        other, claim = claim, other

    assert claim["results_left_out"] is True
    needed = claim["dependencies"]["x"]
    assert needed.get("result") is None
    for credential, expected in ((claim["credentials"], 200), (other["credentials"], 404)):
        async with client_at(served.url, {"Authorization": f"Bearer {credential}"}) as code:
            read = await code.get(f"/v1/tasks/{needed['id']}")
        assert read.status_code == expected
        assert expected == 404 or read.json()["result"] == "y" * 60


async def test_f2_only_its_submitter_and_its_running_tasks_add_to_a_flow(
    served: Served, alice: httpx.AsyncClient, user: NewUser
):
    room = await make_room(alice)
    scope = "queue:create-task:lab/*"
    await alice.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "schema": {}, "replace": True})
    [task] = await flow_of(room, {"ref": "a", "scopes": [scope]})
    flow_id = task["flow_id"]
    more = {"job": room.job, "payload": {"n": 1}, "flow_id": flow_id}
    path = "/v1/rooms/lab/tasks"

    refused = await (await user("bob")).post(path, json={"tasks": [more]})
    assert (refused.status_code, problem(refused)) == (403, "forbidden")
    assert (await alice.post(path, json={"tasks": [more]})).status_code == 202
    claim = (await room.claim())["task"]
    async with client_at(served.url, {"Authorization": f"Bearer {claim['credentials']}"}) as code:
        added = await code.post(path, json={"tasks": [{**more, "depends_on": {"me": claim["id"]}}]})
    assert added.status_code == 202, added.text
    assert added.json()["tasks"][0]["status"] == "blocked"

    shown = (await alice.get(f"/v1/flows/{flow_id}")).json()
    assert shown["total"] == 3


async def test_f2_another_room_or_name_than_a_flow_has_is_refused(lab: Room):
    await make_room(lab.client, "attic")
    [task] = await flow_of(lab, {"ref": "a", "flow_name": "report"})

    for room, said in ((lab, {"flow_name": "other"}), (Room(lab.client, "attic", "attic:tasks:add", ""), {})):
        refused = await put(room, {"flow_id": task["flow_id"], **said})
        assert (refused.status_code, problem(refused)) == (422, "validation-error")


async def test_f2_a_flow_that_is_not_there_or_not_read_is_not_found(lab: Room, scoped: Scoped):
    [task] = await flow_of(lab, {"ref": "a"})
    stranger = await scoped("queue:read:attic", name="eve")

    for client, flow_id in ((lab.client, str(uuid4())), (lab.client, "none"), (stranger, task["flow_id"])):
        for answer in (await client.get(f"/v1/flows/{flow_id}"), await client.post(f"/v1/flows/{flow_id}/cancel")):
            assert (answer.status_code, problem(answer)) == (404, "flow-not-found")
    assert (await stranger.get("/v1/flows")).json()["items"] == []


async def test_f2_who_may_not_steer_its_tasks_changes_nothing_of_a_flow(lab: Room, user: NewUser):
    [task] = await flow_of(lab, {"ref": "a"})

    answer = await (await user("bob")).post(f"/v1/flows/{task['flow_id']}/cancel")

    assert answer.status_code == 200
    assert (answer.json()["changed"], answer.json()["problems"][0]["type"]) == (0, "/v1/problems/forbidden")
    assert await statuses(lab, [task]) == ["pending"]


async def test_f1_f2_a_task_that_waited_for_another_stands_in_the_line_of_its_limit(served: Served, lab: Room):
    made = await lab.client.put("/v1/rooms/lab/limits/one", json={"concurrency": 1})
    assert made.is_success, made.text
    limits = [{"name": "one"}]
    first, second, last = await flow_of(
        lab,
        {"ref": "a"},
        {"depends_on": {"x": "a"}, "limits": limits},
        {"depends_on": {"x": "a"}, "limits": limits},
    )
    await finish(lab, result=1)
    await settled(served)
    assert await statuses(lab, [second, last]) == ["pending", "pending"]

    claimed = (await lab.claim())["task"]

    assert (claimed["id"], (await lab.claim())["task"]) == (second["id"], None)
    assert first["status"] == "pending"


async def test_a_task_that_depends_on_very_many_names_some_and_says_how_many_there_are(
    lab: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dependencies, "MOST_NAMED", 3)
    needs = [{"ref": f"n{i}"} for i in range(4)]
    few, many, often = (
        {"depends_on": {"parts": refs}} for refs in (["n0", "n1", "n2"], ["n0", "n1", "n2", "n3"], ["n3", "n1"] * 2)
    )

    *ids, of_few, of_many, of_often = [task["id"] for task in await flow_of(lab, *needs, few, many, often)]
    seen = [await lab.get(one) for one in (of_few, of_many, of_often)]

    assert [(one["depends_on"]["parts"], one["depends_on_total"]) for one in seen] == [
        (ids[:3], None),
        (ids[:3], 4),
        # At three of its four places.
        ([ids[3], ids[1], ids[1]], 2),
    ]
