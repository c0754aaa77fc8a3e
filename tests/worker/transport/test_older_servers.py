"""What the SDK sends to a server that is older than it: nothing that such a server would refuse."""

import json

import httpx
import pytest

from tests.worker.fakes import HELLO, fake_server
from treadle import Client
from treadle.errors import ValidationFailed
from treadle.transport.http import HttpChannel

pytestmark = pytest.mark.anyio

JOB = {"room": "lab", "category": "tasks", "name": "add", "origin": "module:add", "widen": True}
REPORT = {"task_id": "t", "run_id": 0, "kind": "failed", "error": "slow", "code_runs": True}
OLD_JOB = {"room": "lab", "category": "tasks", "name": "add"}
OLD_REPORT = {"task_id": "t", "run_id": 0, "kind": "failed", "error": "slow"}
OLD_TASK = {"job": "lab:tasks:add", "payload": {"origin": "kept", "baggage": "kept", "jobs": [JOB]}}
TASK = {**OLD_TASK, "baggage": "a=b"}

ASKED = [
    ("register", JOB),
    ("open", {"worker": {}, "jobs": [JOB]}),
    ("reports", {"reports": [REPORT]}),
    ("submit", {"room": "lab", "tasks": [TASK]}),
]
TAKEN_BY_OLD = [
    OLD_JOB,
    {"worker": {}, "jobs": [OLD_JOB]},
    {"reports": [OLD_REPORT]},
    {"room": "lab", "tasks": [OLD_TASK]},
]


@pytest.mark.parametrize("is_older", [True, False])
async def test_only_what_a_server_knows_is_sent_to_it_on_the_socket(is_older: bool) -> None:
    async with fake_server(lambda _: {}) as server:
        if is_older:
            server.hello = {name: value for name, value in HELLO.items() if name != "max_bytes"}
        async with Client(server.url, "token") as client:
            for op, body in ASKED:
                await client.call(op, body)

    sent = [{name: value for name, value in item.items() if name not in {"op", "n"}} for item in server.items]
    assert sent == (TAKEN_BY_OLD if is_older else [body for _, body in ASKED])


async def test_what_an_older_server_refuses_over_http_is_sent_again_without_it() -> None:
    bodies = []
    names = ("id", "room_id", "category", "name", "full_name", "schema", "created_at")
    made = dict.fromkeys(names, "x")

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if "origin" not in bodies[-1] and "other" not in bodies[-1]:
            return httpx.Response(200, json=made)
        name = "origin" if "origin" in bodies[-1] else "other"
        problem = {"type": "/v1/problems/validation-error", "title": "Validation error", "status": 422}
        return httpx.Response(422, json=problem | {"detail": f"{name}: Extra inputs are not permitted"})

    http = HttpChannel(("http://127.0.0.1:1",), "token", transport=httpx.MockTransport(answer))
    assert await http.request("PUT", "/v1/rooms/lab/jobs", JOB) == made
    assert bodies == [JOB, OLD_JOB]
    with pytest.raises(ValidationFailed, match="other"):
        await http.request("PUT", "/v1/rooms/lab/jobs", {"other": 1})
    assert len(bodies) == 3
    await http.close()
