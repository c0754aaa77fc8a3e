"""An encrypted job's tasks carry sealed values alone: all else is refused, and nothing that is refused is kept (F7)."""

import json
from typing import Any

import httpx
import pytest

from tests.api.rooms import SCHEMA, Room, make_room, problem
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle.ids import new_task_id
from treadle.wire.sealed import UNOPENED

SECRET = "hunter2"
SEALER = Sealer(FernetCodec(new_key()))


@pytest.fixture
async def vault(root: httpx.AsyncClient) -> Room:
    return await make_room(root, name="vault", encrypted=True)


def sealed(value: Any, of: str | None = None) -> dict[str, Any]:
    return SEALER.value(value, of)


async def submitted(vault: Room, **more: Any) -> httpx.Response:
    body = {"payload": sealed({"n": 1}), **more}
    return await vault.client.post(f"/v1/rooms/lab/tasks/{vault.job}", json=body)


async def started(vault: Room, **more: Any) -> str:
    """Submit, claim and start a task; return where its run's reports go."""
    answer = await submitted(vault, **more)
    assert answer.status_code == 202, answer.text
    task = await vault.start()
    return f"/v1/tasks/{task['id']}/runs/0"


def refused(answer: httpx.Response, name: str, *words: str) -> None:
    assert (answer.status_code, problem(answer)) == (422, name), answer.text
    assert all(word in answer.json()["detail"] for word in words), answer.json()["detail"]
    assert SECRET not in answer.text


async def test_a_plain_payload_is_refused_and_a_sealed_one_passes_without_a_look_at_the_schema_f7(vault: Room) -> None:
    one = await submitted(vault, payload={"n": 1, "password": SECRET})
    empty = await submitted(vault, payload={})
    odd = await submitted(vault, payload={"treadle:encrypted": f"not {SECRET}"})
    beside = await submitted(vault, payload={**sealed({"n": 1}), "n": 1})
    many = [{"job": vault.job, "payload": payload} for payload in (sealed({"n": 1}), {"n": 1})]
    both = await vault.client.post("/v1/rooms/lab/tasks", json={"tasks": many})
    task = await submitted(vault)

    for answer in (one, empty, odd, beside, both):
        refused(answer, "invalid-payload", vault.job, "codec")
    assert both.json()["detail"].startswith("tasks.1.payload: ")
    assert task.status_code == 202
    assert task.json()["encrypted"] is True
    assert (await vault.client.get("/v1/tasks")).json()["total"] == 1


async def test_a_plain_job_refuses_a_sealed_payload_for_nobody_would_open_it(lab: Room, vault: Room) -> None:
    answer = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": sealed({"n": 1})})

    refused(answer, "invalid-payload", "encrypted: true")
    assert (await lab.submit(1))["encrypted"] is False


async def lasting(vault: Room, task_id: str) -> dict[str, Any]:
    """Return the task without its lease, which a server that has just started stamps anew."""
    return {name: value for name, value in (await vault.get(task_id)).items() if name != "taken_until"}


@pytest.mark.parametrize(
    ("report", "body", "named"),
    [
        ("completed", {"result": {"password": SECRET}}, "result"),
        ("completed", {"result": SECRET}, "result"),
        ("completed", {"result": {"treadle:encrypted": f"{SECRET} {SECRET}"}}, "result"),
        ("failed", {"error": f"KeyError: {SECRET}"}, "error"),
        ("failed", {"error": f"{SECRET}: <treadle:encrypted:AAAA>!"}, "error"),
        ("failed", {"error": "", "traceback": SECRET}, "traceback"),
        ("exception", {"reason": "internal-error", "error": SECRET}, "error"),
        ("paused", {"checkpoint": [SECRET]}, "checkpoint"),
        ("paused", {"detail": SECRET}, "detail"),
        ("checkpoint", {"checkpoint": SECRET}, "checkpoint"),
        ("progress", {"share": 0.5, "message": SECRET}, "message"),
        ("logs", {"lines": [{"message": SEALER.text("fine")}, {"message": SECRET}]}, "lines"),
    ],
)
async def test_no_report_brings_plain_text_in_by_its_route_or_among_many(
    vault: Room, report: str, body: dict[str, Any], named: str
) -> None:
    run = await started(vault)
    task_id = run.split("/")[3]
    before = await lasting(vault, task_id)

    alone = await vault.client.post(f"{run}/{report}", json=body)
    one = {"task_id": task_id, "run_id": 0, "kind": report, **body}
    among = await vault.client.post(f"/v1/workers/{vault.worker_id}/reports", json={"reports": [one]})

    refused(alone, "validation-error", named, "encrypted")
    answer = among.json()["answers"][0]
    assert (answer["status"], answer["type"]) == (422, "/v1/problems/validation-error")
    assert await lasting(vault, task_id) == before
    assert (await vault.client.get(f"/v1/tasks/{task_id}/logs")).json()["items"] == []


async def test_sealed_reports_are_kept_as_they_are_and_the_share_of_the_progress_stays_readable(vault: Room) -> None:
    run = await started(vault)
    task_id = run.split("/")[3]
    checkpoint, result, message = sealed(["half"]), sealed({"sum": 3}), SEALER.text("x" * 1000, most=8000)

    for kind, body in (
        ("checkpoint", {"checkpoint": checkpoint}),
        ("progress", {"share": 0.5, "message": message}),
        ("logs", {"lines": [{"message": SEALER.text("line")}]}),
    ):
        assert (await vault.client.post(f"{run}/{kind}", json=body)).status_code == 200, kind
    half = await vault.get(task_id)
    completed = await vault.client.post(f"{run}/completed", json={"result": result})

    assert (half["checkpoint"], half["progress"]) == (checkpoint, {"share": 0.5, "message": message})
    assert completed.json()["result"] == result
    assert SEALER.open_value(completed.json()["result"]) == {"sum": 3}


async def test_a_run_that_could_not_be_opened_says_so_in_words_that_all_can_read(vault: Room) -> None:
    run = await started(vault)

    failed = await vault.client.post(f"{run}/failed", json={"error": UNOPENED})

    assert (failed.status_code, failed.json()["error"]) == (200, UNOPENED)


async def test_the_class_of_an_error_is_readable_and_failures_are_put_together_by_it(vault: Room) -> None:
    for said in ("one", "two"):
        run = await started(vault)
        error = SEALER.text(f"KeyError: {said}", error_class="KeyError")
        await vault.client.post(f"{run}/failed", json={"error": error, "traceback": SEALER.text("Traceback …")})
    run = await started(vault)
    await vault.client.post(f"{run}/failed", json={"error": SEALER.text("a message alone")})

    groups = (await vault.client.get("/v1/failures")).json()["items"]
    listed = await vault.client.get("/v1/tasks", params={"error": "KeyError"})

    assert {(group["kind"], group["place"], group["runs"]) for group in groups} == {
        ("KeyError", vault.job, 2),
        ("error", vault.job, 1),
    }
    assert listed.json()["total"] == 2


async def test_the_digest_says_whether_a_submit_is_the_same_whatever_its_ciphertext_g6(vault: Room) -> None:
    task_id = new_task_id()
    first = await submitted(vault, id=task_id, payload=sealed({"n": 1}, task_id))
    again = await submitted(vault, id=task_id, payload=sealed({"n": 1}, task_id))
    other = await submitted(vault, id=task_id, payload=sealed({"n": 2}, task_id))
    hurried = await submitted(vault, id=task_id, payload=sealed({"n": 1}, task_id), priority=1)

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["payload"] == first.json()["payload"]
    assert [(answer.status_code, problem(answer)) for answer in (other, hurried)] == [(409, "task-conflict")] * 2


async def test_a_submit_is_the_same_after_its_first_key_has_become_the_second_g6(vault: Room) -> None:
    old, new = new_key(), new_key()
    task_id = new_task_id()
    payloads = [Sealer(FernetCodec(keys)).value({"n": 1}, task_id) for keys in ([old], [new, old], [new])]

    answers = [await submitted(vault, id=task_id, payload=payload) for payload in payloads]

    assert [answer.status_code for answer in answers] == [202, 200, 409]


async def test_a_report_that_is_sealed_anew_is_the_same_one_and_one_of_other_words_is_not_c7(vault: Room) -> None:
    run = await started(vault)
    first = await vault.client.post(f"{run}/completed", json={"result": sealed([1], run)})
    again = await vault.client.post(f"{run}/completed", json={"result": sealed([1], run)})
    other = await vault.client.post(f"{run}/completed", json={"result": sealed([2], run)})

    assert [answer.status_code for answer in (first, again, other)] == [200, 200, 409]
    assert again.json()["result"] == first.json()["result"]


async def test_an_edit_and_a_resolve_by_hand_take_sealed_values_and_no_others(vault: Room) -> None:
    task = (await submitted(vault)).json()
    url, payload, result = f"/v1/tasks/{task['id']}", sealed({"n": 7}), sealed("by hand")

    plain = await vault.client.patch(url, json={"payload": {"n": 7, "password": SECRET}})
    point = await vault.client.patch(url, json={"checkpoint": SECRET})
    edited = await vault.client.patch(url, json={"payload": payload, "checkpoint": sealed(1), "priority": 3})
    await vault.client.post(f"{url}/pause")
    said = await vault.client.post(f"{url}/resolve", json={"result": SECRET})
    bulk = await vault.client.post(
        "/v1/tasks/actions", json={"action": "resolve", "ids": [task["id"]], "result": SECRET}
    )
    resolved = await vault.client.post(f"{url}/resolve", json={"result": result})

    refused(plain, "invalid-payload", "codec")
    refused(point, "validation-error", "checkpoint")
    assert (edited.status_code, edited.json()["payload"], edited.json()["priority"]) == (200, payload, 3)
    refused(said, "validation-error", "result")
    assert [one["type"] for one in bulk.json()["problems"]] == ["/v1/problems/validation-error"]
    assert (resolved.status_code, resolved.json()["result"]) == (200, result)


async def test_an_older_clients_status_update_brings_nothing_plain_in_either_z18(vault: Room) -> None:
    run = await started(vault)
    url = "/".join(run.split("/")[:4])

    answer = await vault.client.patch(url, json={"status": "completed", "result": SECRET})
    null = await vault.client.patch(url, json={"status": "completed"})

    refused(answer, "validation-error", "result")
    assert (null.status_code, null.json()["status"]) == (200, "completed")


async def test_a_text_is_not_looked_for_in_ciphertext(vault: Room) -> None:
    task = (await submitted(vault)).json()
    found = [
        (await vault.client.get("/v1/tasks", params={"text": text})).json()["total"]
        for text in ("AAAA", "treadle:enc", task["id"], "vault")
    ]

    assert found == [0, 0, 1, 1]


async def test_a_job_flips_only_when_it_is_to_be_replaced_and_old_tasks_stay_as_they_are(
    root: httpx.AsyncClient,
) -> None:
    lab = await make_room(root)
    plain = await lab.submit(1)
    body = {"category": "tasks", "name": "add", "schema": SCHEMA, "encrypted": True, "worker_id": lab.worker_id}

    conflict = await root.put("/v1/rooms/lab/jobs", json=body)
    flipped = await root.put("/v1/rooms/lab/jobs", json={**body, "replace": True})
    unknowing = await root.put("/v1/rooms/lab/jobs", json={**body, "encrypted": False, "widen": True})
    now = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 2}})
    run = await lab.start()
    done = await root.post(f"/v1/tasks/{plain['id']}/runs/0/completed", json={"result": {"plain": True}})

    assert [(answer.status_code, problem(answer)) for answer in (conflict, unknowing)] == [(409, "schema-conflict")] * 2
    assert "all of its workers have the keys" in conflict.json()["detail"]
    assert (flipped.json()["encrypted"], flipped.json()["schema_version"]) == (True, 2)
    refused(now, "invalid-payload", "codec")
    assert (run["id"], run["encrypted"]) == (plain["id"], False)
    assert done.status_code == 200
    again = await root.post(f"/v1/tasks/{plain['id']}/rerun")
    assert (again.status_code, again.json()["encrypted"]) == (200, False)


async def test_an_internal_job_is_never_encrypted_for_the_server_would_need_the_keys(root: httpx.AsyncClient) -> None:
    body = {"category": "tasks", "name": "own", "schema": {}, "encrypted": True}

    answer = await root.put("/v1/rooms/@internal/jobs", json=body)

    refused(answer, "validation-error", "@internal")


async def test_a_schedules_payload_is_sealed_too_and_its_tasks_are(vault: Room) -> None:
    url = "/v1/rooms/lab/schedules/nightly"
    body = {"job": vault.job, "interval": 3600}

    plain = await vault.client.put(url, json={**body, "payload": {"n": 1, "password": SECRET}})
    kept = await vault.client.put(url, json={**body, "payload": sealed({"n": 1})})
    patched = await vault.client.patch(url, json={"payload": {"n": 2}})
    ran = await vault.client.post(f"{url}/run")

    for answer in (plain, patched):
        refused(answer, "invalid-payload", "codec")
    assert kept.status_code == 201
    assert (ran.json()["encrypted"], ran.json()["payload"]) == (True, kept.json()["payload"])


async def test_the_size_of_the_ciphertext_counts_and_a_plain_message_may_be_no_longer_than_before(vault: Room) -> None:
    run = await started(vault)

    long = await vault.client.post(f"{run}/progress", json={"message": "x" * 1001})
    endless = await vault.client.post(f"{run}/progress", json={"message": f"<treadle:encrypted:{'A' * 8001}>"})
    error = await vault.client.post(f"{run}/failed", json={"error": f"<treadle:encrypted:{'A' * 1_000_000}>"})

    for answer in (long, endless, error):
        refused(answer, "validation-error")
    assert json.loads(long.text)["detail"].startswith("message: ")
