"""G9: what stands in a body is taken as it is written, or refused; nothing is guessed."""

import gzip
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.rooms import Room, make_room, problem

NUMBERS = (
    "priority",
    "max_retries",
    "max_requeues",
    "weight",
    "delay",
    "timeout",
    "lease_seconds",
    "heartbeat_increment",
    "start_timeout",
    "retry_base",
    "retry_multiplier",
    "retry_randomization",
    "budget",
)


@pytest.mark.parametrize("option", NUMBERS)
async def test_a_number_is_neither_a_flag_nor_a_text(lab: Room, option: str):
    """G9: `true` is no 1, and "5" no 5."""
    url = f"/v1/rooms/lab/tasks/{lab.job}"

    for value in (True, "5", [5], {}):
        answer = await lab.client.post(url, json={"payload": {"n": 1}, option: value})
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), value
        assert answer.json()["errors"][0]["loc"] == [option]
    good = await lab.client.post(url, json={"payload": {"n": 1}, option: 5})

    assert good.status_code == 202
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 1


@pytest.mark.parametrize("value", [5, 1.5e9, True, "5", "1750000000", "-5", "2030-01-01", "2030-01-01T00:00:00", "x"])
@pytest.mark.parametrize("option", ["scheduled_at", "deadline"])
async def test_an_instant_is_written_with_its_offset_and_is_no_number(lab: Room, option: str, value: Any):
    """G9: whether seconds or milliseconds were meant would be a guess."""
    url = f"/v1/rooms/lab/tasks/{lab.job}"

    answer = await lab.client.post(url, json={"payload": {"n": 1}, option: value})

    assert (answer.status_code, problem(answer)) == (422, "validation-error")
    good = await lab.client.post(url, json={"payload": {"n": 1}, option: "2090-01-01T01:00:00+01:00"})
    assert (good.status_code, good.json()[option]) == (202, "2090-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("encoding", "mend"),
    [
        ("utf-8-sig", "it begins with a byte order mark; send UTF-8 without one"),
        ("utf-16", "it looks like UTF-16; send UTF-8"),
        ("utf-16-be", "it looks like UTF-16; send UTF-8"),
        ("utf-32-le", "it looks like UTF-32; send UTF-8"),
        ("latin-1", "it is not valid UTF-8 from byte 19 on; send UTF-8"),
    ],
)
async def test_a_body_that_is_no_utf_8_is_told_what_to_send(lab: Room, encoding: str, mend: str):
    """G9: only `expected value at line 1 column 1` was said of it."""
    body = '{"payload": {"n": "ä"}}'.encode(encoding)

    answer = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", content=body)

    assert (answer.status_code, problem(answer)) == (422, "validation-error")
    assert answer.json()["detail"] == f"the body is not JSON: {mend}"


async def test_a_flag_is_true_or_false_and_nothing_like_it(lab: Room):
    """G9: "no" is not taken for true, and 1 not for a flag."""
    requests = [
        ("PATCH", f"/v1/rooms/lab/jobs/{lab.job}", {}, "paused"),
        ("PATCH", f"/v1/workers/{lab.worker_id}", {}, "draining"),
        ("PUT", "/v1/rooms/lab/jobs", {"category": "tasks", "name": "flags"}, "retain"),
        ("PUT", "/v1/rooms/lab/jobs", {"category": "tasks", "name": "flags"}, "replace"),
        ("POST", "/v1/tokens", {"name": "flags"}, "superuser"),
    ]

    for method, path, body, flag in requests:
        for value in (1, 0, "yes", "true"):
            answer = await lab.client.request(method, path, json={**body, flag: value})
            assert (answer.status_code, problem(answer)) == (422, "validation-error"), (path, flag, value)
            assert answer.json()["errors"][0]["loc"] == [flag]
    assert (await lab.client.get(f"/v1/rooms/lab/jobs/{lab.job}")).json()["paused"] is False


async def test_numbers_of_workers_and_runs_are_taken_as_strictly(lab: Room):
    """G9."""
    task = await lab.submit()
    run = f"/v1/tasks/{task['id']}/runs/0"
    await lab.claim()
    ref = {"task_id": task["id"], "run_id": True}
    requests = [
        ("POST", "/v1/workers", {"concurrency": True}),
        ("POST", "/v1/workers", {"min_concurrency": "1"}),
        ("POST", "/v1/tasks/claim", {"worker_id": lab.worker_id, "tasks": True}),
        ("POST", "/v1/tasks/claim", {"worker_id": lab.worker_id, "wait": "1"}),
        ("PATCH", f"/v1/workers/{lab.worker_id}", {"tasks": [ref]}),
        ("PATCH", f"/v1/tasks/{task['id']}", {"status": "running", "run_id": False}),
        ("PATCH", f"/v1/tasks/{task['id']}", {"status": "running", "run_id": "0"}),
        ("POST", f"/v1/tasks/{task['id']}/cancel", {"if_version": "1"}),
        ("POST", f"/v1/workers/{lab.worker_id}/reports", {"reports": [{**ref, "kind": "started"}]}),
        ("POST", f"{run}/progress", {"share": True}),
        ("POST", f"{run}/completed", {"usage": "3"}),
        ("POST", f"{run}/failed", {"retry_after": True}),
        ("POST", f"{run}/logs", {"lines": [{"message": "x", "at": 5}]}),
    ]

    for method, path, body in requests:
        answer = await lab.client.request(method, path, json=body)
        assert (answer.status_code, problem(answer)) == (422, "validation-error"), (path, body)
    assert (await lab.get(task["id"]))["status"] == "claimed"


async def test_the_room_is_looked_at_before_the_body(lab: Room):
    """Z2: a room that is none is said first, on every route that takes one."""
    for method, path in (
        ("PUT", "/v1/rooms/a:b/jobs"),
        ("GET", "/v1/rooms/a:b/jobs"),
        ("GET", f"/v1/rooms/a:b/jobs/{lab.job}"),
        ("PATCH", f"/v1/rooms/a:b/jobs/{lab.job}"),
        ("GET", f"/v1/rooms/a:b/jobs/{lab.job}/tasks"),
        ("POST", f"/v1/rooms/a:b/tasks/{lab.job}"),
        ("POST", "/v1/rooms/a:b/tasks"),
        ("GET", "/v1/rooms/a:b/tasks?limit=x"),
        ("GET", "/v1/rooms/a:b/workers?limit=x"),
    ):
        answer = await lab.client.request(method, path, content=b"{nope")
        assert (answer.status_code, problem(answer)) == (400, "invalid-room-id"), path


async def test_the_same_instant_is_the_same_content_in_any_zone(lab: Room):
    """G6."""
    given = {"id": str(uuid4()), "payload": {"n": 1}, "scheduled_at": "2090-01-01T00:00:00Z"}
    url = f"/v1/rooms/lab/tasks/{lab.job}"

    first = await lab.client.post(url, json=given)
    again = await lab.client.post(url, json={**given, "scheduled_at": "2090-01-01T02:00:00+02:00"})
    later = await lab.client.post(url, json={**given, "scheduled_at": "2090-01-01T02:00:00Z"})

    assert (first.status_code, again.status_code) == (202, 200)
    assert (later.status_code, problem(later)) == (409, "task-conflict")


async def test_the_same_id_from_another_room_is_other_content(root: httpx.AsyncClient):
    """G6: a task belongs to the room that it was submitted from."""
    shared = await make_room(root, room="@global", name="shared")
    given = {"id": str(uuid4()), "payload": {"n": 1}}

    first = await root.post(f"/v1/rooms/one/tasks/{shared.job}", json=given)
    other = await root.post(f"/v1/rooms/two/tasks/{shared.job}", json=given)

    assert (first.status_code, first.json()["room_id"]) == (202, "one")
    assert (other.status_code, problem(other)) == (409, "task-conflict")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "GZIP", "br, gzip"])
async def test_a_body_that_is_compressed_is_refused_with_what_to_do(lab: Room, coding: str):
    """G9: it was told to be no JSON, and read as it stood where it was some."""
    body = gzip.compress(b'{"payload": {"n": 1}}')

    for content in (body, b'{"payload": {"n": 1}}'):
        answer = await lab.client.post(
            f"/v1/rooms/lab/tasks/{lab.job}", content=content, headers={"Content-Encoding": coding}
        )
        assert (answer.status_code, problem(answer)) == (422, "validation-error")
        assert "send plain JSON" in answer.json()["detail"]
    plain = await lab.client.post(
        f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 1}}, headers={"Content-Encoding": "identity"}
    )

    assert plain.status_code == 202
    assert (await lab.client.get("/v1/tasks")).json()["total"] == 1
