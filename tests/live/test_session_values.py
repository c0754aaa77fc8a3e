"""N1: a value is never a frame's fault. It is refused with a problem for its one item; everything else goes on."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, Socket, ref, submit, url_of
from treadle.wire.values import MOST_DIGITS, MOST_LEVELS
from treadle_server.testing import Served, serve

NESTED = "[" * MOST_LEVELS + "1" + "]" * MOST_LEVELS

BAD = {
    "nul": r'"a \u0000 b"',
    "half a pair": r'"\ud800"',
    "nan": "NaN",
    "infinity": "-Infinity",
    "beyond a double": "1e999",
    "many digits": "1" + "0" * MOST_DIGITS,
    "one level too many": f"[{NESTED}]",
    "a thousand levels": "[" * 1000 + "]" * 1000,
    "a hundred thousand levels": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a key with nul": r'{"\u0000": 1}',
    "a key with half a pair": r'{"\udfff": 1}',
}
"""Values in JSON, and in what looks like it, that can't be carried or kept."""

ODD = {
    "as deep as may be": NESTED,
    "as long as may be": "-" + "9" * MOST_DIGITS,
    "more than 64 bits": str(2**70),
    "braces in a text": json.dumps('}]"{[\\'),
    "a whole pair": r'"\ud83d\ude00"',
    "nul that is none": r'"\\u0000"',
}
"""Values that can be kept, however odd."""


async def send_raw(socket: Socket, *items: str) -> None:
    """Send a frame of items that are JSON already."""
    await socket.connection.send('{"items": [' + ",".join(items) + "]}")


async def worker_with(opened: Open, count: int) -> tuple[Socket, list[dict[str, Any]]]:
    socket = await opened()
    await socket.call("open", worker={"concurrency": 100}, jobs=[JOB])
    await submit(socket, count)
    return socket, await socket.claims(count)


async def test_a_bad_value_is_refused_for_its_item_and_the_frame_goes_on(opened: Open):
    """N1: the item before it and the item behind it are answered, and so is what the session asks next."""
    socket = await opened()
    await socket.call("register", **JOB)

    for kind, value in BAD.items():
        task = f'{{"job": "{NAME}", "payload": {{"n": [1, {value}]}}}}'
        async with socket.asking(1000, 1001, 1002) as told:
            await send_raw(
                socket,
                '{"op": "ping", "n": 1000}',
                f'{{"op": "submit", "n": 1001, "room": "lab", "tasks": [{task}]}}',
                '{"op": "ping", "n": 1002}',
            )

        assert "ok" in told[1000]
        assert "ok" in told[1002]
        problem = told[1001]["problem"]
        assert (problem["status"], problem["type"]) == (422, "/v1/problems/validation-error"), kind
        assert problem["detail"].startswith("tasks[0].payload.n[1]"), kind


async def test_one_bad_task_among_many_is_refused_alone(opened: Open):
    """N1: `submit_each` takes each by itself, with options or without."""
    socket = await opened()
    await socket.call("register", **JOB)
    good = f'{{"job": "{NAME}", "payload": {{}}, "priority": 1}}'
    bad = [f'{{"job": "{NAME}", "payload": {{"text": {value}}}}}' for value in BAD.values()]
    tasks = ", ".join([good, *bad, good])

    async with socket.asking(1000) as told:
        await send_raw(socket, f'{{"op": "submit_each", "n": 1000, "room": "lab", "tasks": [{tasks}]}}')

    first, *refused, last = told[1000]["ok"]["tasks"]
    assert (first["status"], last["status"]) == ("pending", "pending")
    for kind, answer in zip(BAD, refused, strict=True):
        assert answer["problem"]["status"] == 422, kind
        assert answer["problem"]["detail"].startswith("payload.text"), kind


async def test_one_bad_report_among_many_is_refused_alone(opened: Open):
    """N1: bad results are refused, each with its place; those before and behind them are kept."""
    socket, claims = await worker_with(opened, len(BAD) + 2)
    results = ["1", *(f'{{"pages": [{{"text": {value}}}]}}' for value in BAD.values()), "3"]
    reports = [
        json.dumps({**ref(task), "kind": "completed", "starts": True})[:-1] + f', "result": {result}}}'
        for task, result in zip(claims, results, strict=True)
    ]

    async with socket.asking(1000) as told:
        await send_raw(socket, f'{{"op": "reports", "n": 1000, "brief": true, "reports": [{", ".join(reports)}]}}')

    refused = told[1000]["ok"]["refused"]
    assert [(one["index"], one["status"]) for one in refused] == [(i + 1, 422) for i in range(len(BAD))]
    assert all(one["detail"].startswith("result.pages[0].text") for one in refused), refused
    assert (await socket.call("get", id=claims[0]["id"]))["result"] == 1
    assert (await socket.call("get", id=claims[-1]["id"]))["result"] == 3
    await socket.call("reports", reports=[{**ref(claims[1]), "kind": "completed", "starts": True, "result": 2}])
    assert (await socket.call("get", id=claims[1]["id"]))["result"] == 2


async def test_a_report_of_too_many_digits_among_others_is_refused_alone(opened: Open):
    socket, claims = await worker_with(opened, 2)
    many = f"[{', '.join(['9' * 4000] * 300)}]"
    reports = [
        json.dumps({**ref(task), "kind": "completed", "starts": True})[:-1] + f', "result": {result}}}'
        for task, result in zip(claims, [many, "3"], strict=True)
    ]

    async with socket.asking(1000) as told:
        await send_raw(socket, f'{{"op": "reports", "n": 1000, "brief": true, "reports": [{", ".join(reports)}]}}')

    assert [(one["index"], one["status"]) for one in told[1000]["ok"]["refused"]] == [(0, 413)]
    assert (await socket.call("get", id=claims[1]["id"]))["result"] == 3


async def test_odd_values_that_can_be_kept_are_kept_as_they_are(opened: Open):
    """N1: levels are counted from the value itself, digits and bits of its own are free."""
    socket = await opened()
    await socket.call("register", **JOB)

    for kind, value in ODD.items():
        payload = "{}" if value == NESTED else f'{{"n": {value}}}'
        async with socket.asking(1000) as told:
            task = f'{{"job": "{NAME}", "payload": {payload}}}'
            await send_raw(socket, f'{{"op": "submit", "n": 1000, "room": "lab", "tasks": [{task}]}}')
        [made] = told[1000]["ok"]["tasks"]
        async with socket.asking(1001):
            await send_raw(socket, f'{{"op": "edit", "n": 1001, "id": "{made["id"]}", "checkpoint": {value}}}')

        kept = await socket.call("get", id=made["id"])
        assert (kept["checkpoint"], kept["payload"]) == (json.loads(value), json.loads(payload)), kind


OPERATIONS: list[dict[str, Any]] = [
    {"op": "reports", "reports": [{"task_id": "\x00", "run_id": 0, "kind": "started"}]},
    {"op": "beat", "tasks": [{"task_id": "{task}", "run_id": 2**70}]},
    {"op": "beat", "stopped": [{"task_id": "{task}", "run_id": 2**63}]},
    {"op": "reclaim", "task_id": "{task}", "run_id": 10**400},
    {"op": "return", "runs": [{"task_id": "{task}", "run_id": 2**64}]},
    {"op": "edit", "id": "{task}", "tags": {"a": "\ud800"}},
    {"op": "edit", "id": "{task}", "if_version": 2**70, "priority": 1},
    {"op": "action", "id": "{task}", "action": "cancel", "if_version": -(2**70)},
    {"op": "action", "id": "{task}", "action": "resolve", "result": "\x00"},
    {"op": "actions", "action": "resolve", "ids": ["{task}"], "error": "\ud800"},
    {"op": "register", **JOB, "room": "\ud800"},
    {"op": "register", **JOB, "schema": {"default": "\x00"}},
    {"op": "every", "since": {"stream": "\ud800", "seq": 1}},
    {"op": "every", "since": {"stream": "a", "seq": 2**70}},
    {"op": "watch", "sub": "\x00", "topic": "jobs"},
    {"op": "schedule", "room": "lab", "name": "\ud800", "action": "pause"},
    {"op": "get", "id": "\ud800"},
    {"op": "\x00"},
    {"op": "\ud800"},
    {"op": "ping", "\ud800": 1},
    {"op": "ping", "\x00": 1},
    {"op": 1},
    {},
]


async def test_every_operation_answers_a_bad_value_with_a_problem(opened: Open):
    """N1, G9."""
    socket, [task] = await worker_with(opened, 1)

    for fields in OPERATIONS:
        text = json.dumps({**fields, "n": 1000}).replace("{task}", task["id"])
        async with socket.asking(1000) as told:
            await send_raw(socket, text)

        assert 400 <= told[1000]["problem"]["status"] < 500, (fields, told)


async def test_a_report_of_every_kind_is_refused_alone(opened: Open):
    """N1: texts and checkpoints as well as results, before a good report of another run."""
    socket, [good, bad] = await worker_with(opened, 2)
    fields: dict[str, dict[str, Any]] = {
        "completed": {"result": "\x00"},
        "failed": {"error": "\ud800"},
        "paused": {"checkpoint": {"a": ["\x00"]}},
        "progress": {"message": "\x00"},
        "logs": {"lines": [{"message": "good"}, {"message": "\x00"}]},
        "checkpoint": {"checkpoint": {"\x00": 1}},
        "exception": {"reason": "internal-error", "traceback": "\x00"},
    }
    wrong = [{**ref(bad), "kind": kind, **more} for kind, more in fields.items()]

    told = await socket.call("reports", reports=[*wrong, {**ref(good), "kind": "completed", "starts": True}])

    assert [one["status"] for one in told["answers"]] == [422] * len(wrong) + [200]
    assert {one["task_id"] for one in told["answers"][:-1]} == {bad["id"]}


async def test_a_run_number_past_its_bits_is_refused_alone(opened: Open):
    """N1: the answer names the run where it can."""
    socket, [good, bad] = await worker_with(opened, 2)
    numbers = [2**31, 2**63, 2**70, -(2**70), 10**4000]
    wrong = [{**ref(bad), "run_id": number, "kind": "completed", "result": 1} for number in numbers]

    told = await socket.call("reports", reports=[*wrong, {**ref(good), "kind": "completed", "starts": True}])

    assert [one["status"] for one in told["answers"]] == [422] * len(wrong) + [200]
    assert [one["run_id"] for one in told["answers"]] == [2**31, None, None, None, None, 0]


@pytest.mark.parametrize("starts", ["yes", 1, None, []])
async def test_a_flag_of_a_plain_report_that_is_none_is_refused_alone(opened: Open, starts: Any):
    """N1: it was taken for false, and the completion counted."""
    socket, [good, bad] = await worker_with(opened, 2)
    await socket.call("reports", reports=[{**ref(bad), "kind": "started"}])
    ends = [{**ref(bad), "kind": "completed", "starts": starts}, {**ref(good), "kind": "completed", "starts": True}]

    told = await socket.call("reports", reports=ends)
    bad_now = (await socket.call("get", id=bad["id"]))["status"]

    assert [one["status"] for one in told["answers"]] == [422, 200]
    assert told["answers"][0]["detail"].startswith("starts: ")
    assert bad_now == "running"


async def test_a_request_without_a_number_is_answered_to_nobody_and_the_session_goes_on(opened: Open):
    """N1: there is no number to answer to, so `re` is null; an item that is no object has none either."""
    socket = await opened()

    for number in ("1e3", "null", '"7"', "true", str(2**63), "1" + "0" * 5000, "[]"):
        async with socket.asking(None, 1001) as told:
            await send_raw(socket, f'{{"op": "ping", "n": {number}}}', '{"op": "ping", "n": 1001}')
        assert told[None]["problem"]["detail"].startswith("n: ")
        assert "ok" in told[1001]
    async with socket.asking(None, 1001) as told:
        await send_raw(socket, "[1]", '{"op": "ping", "n": 1001}')
    assert told[None]["problem"]["status"] == 422


async def test_one_bad_edit_among_many_is_refused_alone(opened: Open):
    """N1: by its task's id; over HTTP likewise."""
    socket = await opened()
    await socket.call("register", **JOB)
    one, two, three = await submit(socket, 3)
    edits = [
        {"id": one["id"], "priority": 7},
        {"id": two["id"], "payload": {"a": [1, "\x00"]}},
        {"id": three["id"], "if_version": 2**70, "priority": 7},
    ]

    told = await socket.call("edits", edits=edits)

    assert told["changed"] == 1
    assert {one["id"]: one["outcome"] for one in told["problems"]} == {two["id"]: "refused", three["id"]: "refused"}
    assert "payload.a[1]" in told["problems"][0]["detail"]
    assert (await socket.call("get", id=one["id"]))["priority"] == 7


async def test_reports_over_http_are_taken_each_by_itself(served: Served, opened: Open):
    """N1: a run number past 64 bits is a 422 of its report; it was a 500 with the others committed."""
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        worker = (await http.post("/v1/workers", json={"concurrency": 10})).json()["id"]
        await http.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "worker_id": worker})
        many = {"tasks": [{"job": NAME}] * 3}
        await http.post("/v1/rooms/lab/tasks", json=many)
        claims = (await http.post("/v1/tasks/claim", json={"worker_id": worker, "tasks": 3})).json()["tasks"]
        fields = ({"run_id": 2**70}, {"result": {"t": "\x00"}}, {"result": 3})
        reports = [
            {**ref(task), "kind": "completed", "starts": True, **more}
            for task, more in zip(claims, fields, strict=True)
        ]

        told = await http.post(f"/v1/workers/{worker}/reports", json={"reports": reports})
        alone = await http.post(f"/v1/workers/{worker}/reports", json={"reports": reports[:1]})
        states = [(await http.get(f"/v1/tasks/{task['id']}")).json()["status"] for task in claims]

    assert told.status_code == 200, told.text
    assert [one["status"] for one in told.json()["answers"]] == [422, 422, 200]
    assert "result.t" in told.json()["answers"][1]["detail"]
    assert alone.status_code == 422
    assert states == ["claimed", "claimed", "completed"]


async def test_a_bulk_submit_over_http_is_refused_whole_and_names_the_place(served: Served, opened: Open):
    """N1: all or nothing."""
    socket = await opened()
    await socket.call("register", **JOB)
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        tasks = [{"job": NAME, "payload": {}}, {"job": NAME, "payload": {"deep": {"text": "\x00"}}}]
        told = await http.post("/v1/rooms/lab/tasks", json={"tasks": tasks})
        listed = (await http.get("/v1/rooms/lab/tasks")).json()

    assert told.status_code == 422
    assert told.json()["detail"].startswith("tasks[1].payload.deep.text: a NUL character")
    assert listed["total"] == 0


async def test_items_that_are_no_requests_are_each_refused_and_drop_nobody(tmp_path: Path) -> None:
    """A million held the server for 4 s, took 800 MB of it, and had the session dropped as too slow for its answers."""
    async with (
        serve(None, data_dir=tmp_path / "data", session_queue_bytes=65_536) as served,
        connect(url_of(served), additional_headers=served.headers, max_size=None) as connection,
    ):
        await connection.send('{"items": [{"op": "hello", "n": 0}, ' + "1, " * 3000 + '{"op": "ping", "n": 7}]}')
        answers: list[dict[str, Any]] = []
        while len(answers) < 3002:
            answers += json.loads(await connection.recv())["items"]

    assert [answer["re"] for answer in answers] == [0, *[None] * 3000, 7]
