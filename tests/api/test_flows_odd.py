"""F1, F2, F4, G9: odd requests about limits, flows and messages are answered rightly, or with what is to be mended."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.rooms import Room, make_room, problem
from tests.api.test_flows import finish, flow_of, put, settled
from treadle_server.operations import carrying
from treadle_server.testing import Served


async def fail(lab: Room, error: str = "broken") -> dict[str, Any]:
    return await finish(lab, "failed", error=error)


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("run", "pending")])
async def test_f2_an_edited_policy_holds_for_what_has_failed_already(
    served: Served, lab: Room, policy: str, status: str
):
    first, second = await flow_of(lab, {"ref": "a"}, {"depends_on": {"x": "a"}, "on_dependency_failure": "hold"})
    await fail(lab)
    await settled(served)
    assert (await lab.get(second["id"]))["status"] == "blocked"

    edited = await lab.client.patch(f"/v1/tasks/{second['id']}", json={"on_dependency_failure": policy})

    assert (edited.status_code, edited.json()["status"]) == (200, status)
    if policy == "cancel":
        assert edited.json()["reason"] == "dependency-failed"
        assert first["id"] in edited.json()["error"]


async def test_f2_an_edited_policy_leaves_what_waits_for_open_tasks_blocked(served: Served, lab: Room):
    _, second = await flow_of(lab, {"ref": "a"}, {"depends_on": {"x": "a"}})

    edited = await lab.client.patch(f"/v1/tasks/{second['id']}", json={"on_dependency_failure": "hold"})
    await fail(lab)
    await settled(served)

    assert edited.json()["status"] == "blocked"
    assert (await lab.get(second["id"]))["status"] == "blocked"


@pytest.mark.parametrize("name", ["depends_on", "arguments_from", "flow_id", "flow_name", "ref"])
async def test_g9_what_binds_a_task_to_others_is_not_edited_and_it_is_said_what_to_do(lab: Room, name: str):
    _, second = await flow_of(lab, {"ref": "a"}, {"depends_on": {"x": "a"}})

    edited = await lab.client.patch(f"/v1/tasks/{second['id']}", json={name: "x"})
    many = await lab.client.post("/v1/tasks/edits", json={"edits": [{"id": second["id"], name: "x"}]})

    assert edited.status_code == 422
    said = f"{name}: fixed by the submit; cancel the task, and submit another one"
    assert said in edited.json()["detail"]
    assert said in many.text


@pytest.mark.parametrize("kind", ["failed", "cancelled"])
async def test_f2_a_result_stays_while_what_would_take_it_may_be_run_again(lab: Room, kind: str):
    first = await lab.submit(1)
    await finish(lab, result=5)
    [second] = await flow_of(lab, {"depends_on": {"x": first["id"]}})
    if kind == "failed":
        await fail(lab)
    else:
        await lab.client.post(f"/v1/tasks/{second['id']}/cancel")

    await lab.client.post("/v1/prune", json={"older_than": 0, "status": ["completed"]})
    await lab.client.post(f"/v1/tasks/{second['id']}/rerun")

    assert (await lab.claim())["task"]["dependencies"]["x"]["result"] == 5


async def test_f2_what_was_cancelled_by_hand_stays_so_when_the_failed_run_again_and_is_waited_for(
    served: Served, lab: Room
):
    first, byhand, last = await flow_of(lab, {"ref": "a"}, {"ref": "b"}, {"depends_on": {"x": "a", "y": "b"}})
    await fail(lab)
    await lab.client.post(f"/v1/tasks/{byhand['id']}/cancel")
    await settled(served)

    await lab.client.post(f"/v1/flows/{first['flow_id']}/rerun-failed")
    await finish(lab)
    await settled(served)

    assert [(await lab.get(one["id"]))["status"] for one in (first, byhand, last)] == [
        "completed",
        "cancelled",
        "blocked",
    ]
    await lab.client.post(f"/v1/tasks/{byhand['id']}/rerun")
    await finish(lab)
    await settled(served)
    assert (await lab.claim())["task"]["id"] == last["id"]


async def test_f2_a_result_goes_when_nothing_takes_it_any_more(lab: Room):
    first = await lab.submit(1)
    await finish(lab, result=5)
    await flow_of(lab, {"depends_on": {"x": first["id"]}})
    await fail(lab)

    for _ in range(2):
        await lab.client.post("/v1/prune", json={"older_than": 0})

    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0


@pytest.mark.parametrize("said", [None, 5, [], [5], [["a"]], {}, "", ["x" * 256], ["a"] * 100_001])
async def test_g9_what_is_no_dependency_is_refused_in_words_that_say_what_is_one(lab: Room, said: object):
    answer = await put(lab, {"ref": "a"}, {"depends_on": {"x": said}})

    assert problem(answer) == "validation-error"
    assert "write the id or ref of a task, or a list of 1 to 100,000 of them" in answer.json()["detail"]
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 0


async def test_f2_a_result_counts_as_often_as_a_claim_would_carry_it(
    served: Served, lab: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(carrying, "MOST_BYTES", 500)
    await flow_of(lab, {"ref": "a"}, {"depends_on": {"x": ["a"] * 10}})
    await finish(lab, result="y" * 60)
    await settled(served)

    claim = (await lab.claim())["task"]

    assert claim["results_left_out"] is True
    assert len(claim["dependencies"]["x"]) == 10
    assert all(one.get("result") is None for one in claim["dependencies"]["x"])


async def test_f2_errors_count_too_when_a_claim_carries_them(
    served: Served, lab: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(carrying, "MOST_BYTES", 50)
    await flow_of(lab, {"ref": "a"}, {"depends_on": {"x": "a"}, "on_dependency_failure": "run"})
    await fail(lab, "z" * 60)
    await settled(served)

    claim = (await lab.claim())["task"]

    assert claim["results_left_out"] is True
    assert (claim["dependencies"]["x"]["status"], claim["dependencies"]["x"].get("error")) == ("failed", None)


async def test_f3_a_picture_of_a_flow_has_the_beginning_of_a_long_error(lab: Room):
    [task] = await flow_of(lab, {"ref": "a"})
    await fail(lab, "z" * 5_000)

    shown = (await lab.client.get(f"/v1/flows/{task['flow_id']}")).json()

    assert shown["tasks"][0]["error"] == "z" * 2_000


async def test_f3_of_a_long_sealed_error_a_picture_shows_no_cipher_text(lab: Room):
    [task] = await flow_of(lab, {"ref": "a"})
    await fail(lab, f"KeyError: <treadle:encrypted:{'z' * 5_000}>")

    shown = (await lab.client.get(f"/v1/flows/{task['flow_id']}")).json()

    assert shown["tasks"][0]["error"] == "KeyError: (encrypted)"


async def test_f4_a_message_that_is_waited_for_is_taken_though_a_thousand_others_wait(
    lab: Room, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("treadle_server.domain.steps.MOST_WAITING", 2)
    task = await lab.submit(1)
    await lab.start()
    messages = f"/v1/tasks/{task['id']}/messages"
    for _ in range(2):
        assert (await lab.client.post(f"{messages}/noise", json={})).status_code == 201
    wait = {"step": "approved", "receives": True, "seconds": 1000}
    await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/suspended", json=wait)

    refused = await lab.client.post(f"{messages}/noise", json={})
    taken = await lab.client.post(f"{messages}/approved", json={"data": 1})

    assert problem(refused) == "too-many-requests"
    assert (taken.status_code, taken.json()["received"]) == (201, True)
    assert (await lab.get(task["id"]))["status"] == "pending"
    assert problem(await lab.client.post(f"{messages}/approved", json={"data": 2})) == "too-many-requests"


@pytest.mark.parametrize("name", ["a\nb", "\n", "a/b", "a\r\n", " ", "%2F", "..x"])
async def test_f4_a_message_may_have_any_name_that_a_step_may_have(lab: Room, name: str):
    task = await lab.submit(1)
    await lab.start()

    sent = await lab.client.post(f"/v1/tasks/{task['id']}/messages/{quote(name, safe='')}", json={"data": 1})
    received = await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/receive", json={"step": name})

    assert (sent.status_code, sent.json()["name"]) == (201, name)
    assert received.json()["item"]["result"] == 1


@pytest.mark.parametrize("name", ["%ED%A0%80", "%FF", "a%C3", "%00"])
async def test_g9_a_name_in_a_path_that_is_no_text_is_refused_and_not_replaced(root: httpx.AsyncClient, name: str):
    lab = await make_room(root)
    task = await lab.submit(1)

    for refused in (
        await root.put(f"/v1/rooms/lab/limits/{name}", json={"concurrency": 1}),
        await root.post(f"/v1/tasks/{task['id']}/messages/{name}", json={}),
    ):
        assert refused.status_code == 404
        assert "not valid UTF-8" in refused.json()["detail"]
    assert (await root.get("/v1/rooms/lab/limits")).json()["total"] == 0


@pytest.mark.parametrize("key", ["/~", "/a~2b", "/a~"])
async def test_g9_a_key_that_is_no_pointer_is_refused(lab: Room, key: str):
    await lab.client.put("/v1/rooms/lab/limits/api", json={"concurrency": 1})
    job = {"category": "tasks", "name": "keyed", "retain": True, "limits": [{"name": "api", "key": key}]}

    refused = await lab.client.put("/v1/rooms/lab/jobs", json=job)

    assert problem(refused) == "validation-error"
    assert "write ~0 there for ~, and ~1 for /" in refused.json()["detail"]
