"""Every route and every operation of the socket against everybody (C3, C8, Z3, Z7, G9, G10).

A row is a route, a column is who asks, a cell is what is answered:

    +  done                       .  answered without anything of the room     u  401 unauthorized
    f  403 forbidden              n  404, as if it were not there              s  409 stale-run
"""

import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from websockets.asyncio.client import connect

from tests.conftest import FakeClock
from tests.live.sockets import Socket, connected, url_of
from treadle_server.api.endpoint import Endpoint
from treadle_server.api.routes import ENDPOINTS
from treadle_server.authorization.narrowing import HEADER
from treadle_server.authorization.permission import Permission
from treadle_server.live.route import OPS
from treadle_server.testing import Served, serve

JOB = "lab:tasks:add"
ELSEWHERE = "01a1fca0-0000-7000-8000-000000000000"
SCOPES: dict[str, list[str] | None] = {
    "reader": ["queue:read:lab"],
    "stranger": ["queue:read:other", "queue:read:la", "queue:read:lab2*"],
    "submitter": ["queue:create-task:lab/*"],
    "steerer": ["queue:control-task:lab"],
    "owner": None,  # who submitted the task, and whose worker has it
    "other": None,
    "worker": ["queue:claim-work:other", "queue:worker-id:g/*", "queue:register-job:other"],
    "run": ["queue:claim-task:*"],
    "wrong_run": [f"queue:claim-task:{ELSEWHERE}/0"],
}
COLUMNS = ("none", "wrong", "expired", *SCOPES, "root")
CREDENTIALS = {"claim": "run", "other claim": "wrong_run"}
"""Who shows the signed credential of a claim, of this run or another one: answered as a token of its scope is."""
OF_RUN = {"reports": [{"task_id": "TASK", "run_id": 0, "kind": "progress", "share": 0.5}]}
ENDED = {"paused", "failed", "cancelled"}
"""States in which no run goes on; what its credential is then good for is shown in test_credentials.py."""
NARROWED = {f"{who} as {column}": (who, column) for who in ("owner", "root") for column in ("reader", "stranger")}
"""Who asks with no more than another's scopes, by `Treadle-Authorized-Scopes`: as that one, in every row, whoever's the
task and the worker are.
"""


class Row(NamedTuple):
    cells: str
    state: str = "running"
    """Of the task: pending, claimed, running, paused, failed, cancelled; stored: running, with an artifact; hooked:
    pending, and there is a webhook; ticking: the same with a schedule; limited: with a limit."""
    body: dict[str, Any] | None = None
    """`TASK`, `WORKER` and `TARGET` stand for the ids of the scene, and for the name of its target (and schedule, and
    limit)."""
    once: bool = False
    """Whether it can be done but once, so that everybody who may needs a scene of their own."""


OPEN = Row("+ + + + + + + + + + + + +")
SUPERUSER = "u u u f f f f f f f f f +"
ANY_TOKEN = "u u u + + + + + + + + + +"
READ_LIST = "u u u + . . . + + . . . +"
READ_ROOM = "u u u + n n n + + n n n +"
READ_TASK = "u u u + n n + + + n + n +"
CONTROL = "  u u u f n n + + f n f n +"
RUN = "      u u u f n n f + f n + n +"
WEBHOOK = "   u u u f f f f + n f f f +"
HOOK = {"url": "https://hooks.example/", "jobs": ["lab:tasks:none"], "statuses": ["completed"]}
"""Of a job without tasks, so that nothing is ever sent."""
SCHEDULE = "  u u u f n n + + f n n n +"
FLOW = "     u u u f n n + + f n n n +"
TICKING = {"job": JOB, "interval": 86_400}
LIMIT = "     u u u f f f + + + f f f +"
OWN_WORKER = "u u u f f f f + f f f f +"

#                                             none wrong expired reader stranger submitter steerer
#                                                       owner other worker run wrong_run root
ROUTES = {
    "PUT /v1/rooms/{room}/jobs": Row(
        "u u u f f f f + + f f f +", body={"category": "tasks", "name": "add", "retain": True}
    ),
    "GET /v1/rooms/{room}/jobs": Row(READ_LIST),
    "GET /v1/rooms/{room}/jobs/{job_name}": Row(READ_ROOM),
    "PATCH /v1/rooms/{room}/jobs/{job_name}": Row("u u u f n n + + + n n n +", body={"paused": False}),
    "GET /v1/rooms/{room}/jobs/{job_name}/tasks": Row(READ_ROOM),
    "POST /v1/rooms/{room}/tasks/{job_name}": Row("u u u f f + f + + f f f +"),
    "POST /v1/rooms/{room}/tasks": Row("u u u f f + f + + f f f +", body={"tasks": [{"job": JOB}]}),
    "GET /v1/rooms/{room}/tasks": Row(READ_LIST),
    "GET /v1/tasks": Row(READ_LIST),
    "POST /v1/tasks/claim": Row(OWN_WORKER, body={"worker_id": "WORKER"}),
    "POST /v1/tasks/actions": Row(
        "u u u f n n + + f n f n +", "pending", body={"action": "cancel", "ids": ["TASK"]}, once=True
    ),
    "POST /v1/tasks/edits": Row(
        "u u u f n n + + f n f n +", "pending", body={"edits": [{"id": "TASK", "tags": {"a": "b"}}]}
    ),
    "POST /v1/tasks/freeze": Row(READ_LIST, body={}),
    "POST /v1/tasks/window": Row(READ_LIST, body={}),
    "GET /v1/tasks/{task_id}": Row(READ_TASK),
    "PATCH /v1/tasks/{task_id}": Row(CONTROL, "pending", body={"tags": {"a": "b"}}),
    "POST /v1/tasks/{task_id}/cancel": Row(CONTROL, once=True),
    "POST /v1/tasks/{task_id}/pause": Row(CONTROL),
    "POST /v1/tasks/{task_id}/resume": Row(CONTROL, "paused", once=True),
    "POST /v1/tasks/{task_id}/rerun": Row(CONTROL, "failed", once=True),
    "POST /v1/tasks/{task_id}/resolve": Row(CONTROL, "failed", once=True),
    "GET /v1/tasks/{task_id}/runs": Row(READ_TASK),
    "GET /v1/tasks/{task_id}/events": Row(READ_TASK),
    "GET /v1/tasks/{task_id}/logs": Row(READ_TASK),
    "GET /v1/tasks/{task_id}/steps": Row(READ_TASK),
    "POST /v1/tasks/{task_id}/messages/{name:path}": Row("u u u f n n + + f n + n +", body={"data": 1, "id": "1"}),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/receive": Row(RUN, body={"step": "a"}),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/reclaim": Row(RUN),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/started": Row(RUN, "claimed"),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/completed": Row(RUN, once=True),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/failed": Row(RUN, once=True),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/exception": Row(RUN, body={"reason": "internal-error"}, once=True),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/paused": Row(RUN, once=True),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/suspended": Row(RUN, body={"step": "a", "seconds": 60.0}, once=True),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/step": Row(RUN, body={"step": "a"}),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/stopped": Row("u u u s n n s + s n + n +", "cancelled", once=True),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/checkpoint": Row(RUN, body={"checkpoint": 1}),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/progress": Row(RUN, body={"share": 0.5}),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/logs": Row(RUN, body={"lines": [{"message": "hi"}]}),
    "POST /v1/tasks/{task_id}/runs/{run_id:int}/artifacts": Row(RUN, body={"name": "a", "content_length": 5}),
    "GET /v1/tasks/{task_id}/artifacts": Row(READ_TASK),
    "GET /v1/tasks/{task_id}/artifacts/{name:path}": Row(READ_TASK, "stored"),
    # Nobody has a signature for this one; that one opens them is shown in tests/artifacts.
    "PUT /v1/uploads/{upload_id}": Row("n n n n n n n n n n n n n"),
    "POST /v1/uploads/{upload_id}": Row("n n n n n n n n n n n n n"),
    "GET /v1/rooms/{room}/targets": Row(READ_LIST),
    "GET /v1/rooms/{room}/targets/{name:path}": Row(READ_ROOM),
    "GET /v1/rooms/{room}/schedules": Row(READ_LIST, "ticking"),
    "PUT /v1/rooms/{room}/schedules/{name}": Row("u u u f f + f + + f f f +", body=TICKING, once=True),
    "GET /v1/rooms/{room}/schedules/{name}": Row(READ_ROOM, "ticking"),
    "PATCH /v1/rooms/{room}/schedules/{name}": Row(SCHEDULE, "ticking", body={"paused": True}),
    "DELETE /v1/rooms/{room}/schedules/{name}": Row(SCHEDULE, "ticking", once=True),
    "POST /v1/rooms/{room}/schedules/{name}/run": Row(SCHEDULE, "ticking", once=True),
    "GET /v1/rooms/{room}/limits": Row(READ_LIST, "limited"),
    "PUT /v1/rooms/{room}/limits/{name}": Row(LIMIT, body={"concurrency": 1}, once=True),
    "GET /v1/rooms/{room}/limits/{name}": Row(READ_ROOM, "limited"),
    "DELETE /v1/rooms/{room}/limits/{name}": Row(LIMIT, "limited", once=True),
    "GET /v1/flows": Row(READ_LIST),
    "GET /v1/flows/{flow_id}": Row(READ_ROOM),
    "POST /v1/flows/{flow_id}/cancel": Row(FLOW, once=True),
    "POST /v1/flows/{flow_id}/pause": Row(FLOW),
    "POST /v1/flows/{flow_id}/resume": Row(FLOW, "paused", once=True),
    "POST /v1/flows/{flow_id}/rerun-failed": Row(FLOW, "failed", once=True),
    "GET /v1/workers": Row(READ_LIST),
    "GET /v1/rooms/{room}/workers": Row(READ_LIST),
    "GET /v1/workers/{worker_id}": Row(READ_ROOM),
    "PATCH /v1/workers/{worker_id}": Row(OWN_WORKER),
    "POST /v1/workers/{worker_id}/drain": Row(OWN_WORKER),
    "DELETE /v1/workers/{worker_id}": Row(OWN_WORKER, once=True),
    "POST /v1/workers/{worker_id}/reports": Row(
        OWN_WORKER, body={"reports": [{"task_id": "TASK", "run_id": 0, "kind": "progress", "share": 0.5}]}
    ),
    "POST /v1/workers": Row("u u u f f f f + + + f f +", body={"name": "n", "group": "g", "pool": "other"}),
    "GET /v1/rooms/{room}/webhooks": Row("u u u f f f f + + f f f +"),
    "PUT /v1/rooms/{room}/webhooks/{name}": Row("u u u f f f f + + f f f +", body=HOOK, once=True),
    "GET /v1/rooms/{room}/webhooks/{name}": Row(WEBHOOK, "hooked"),
    "DELETE /v1/rooms/{room}/webhooks/{name}": Row(WEBHOOK, "hooked", once=True),
    "GET /v1/rooms/{room}/webhooks/{name}/deliveries": Row(WEBHOOK, "hooked"),
    "POST /v1/rooms/{room}/webhooks/{name}/redeliver": Row(WEBHOOK, "hooked"),
    "POST /v1/prune": Row(SUPERUSER, body={"dry_run": True, "older_than": 1}),
    "POST /v1/tokens": Row(SUPERUSER, body={"name": "new"}),
    "GET /v1/tokens": Row(SUPERUSER),
    "POST /v1/signing-keys": Row(SUPERUSER),
    "DELETE /v1/tokens/{token_id}": Row(SUPERUSER),
    "GET /v1/whoami": Row(ANY_TOKEN),
    "GET /v1/events": Row(READ_LIST),
    "GET /v1/failures": Row(READ_LIST),
    "GET /v1/stats": Row(READ_LIST),
    "GET /metrics": Row("u u u f f f f f f f f f +"),
    "GET /healthz": OPEN,
    "GET /v1/healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /v1/readyz": OPEN,
    "GET /v1/problems/{name}": OPEN,
    "GET /v1/openapi.json": OPEN,
}

OPS_OF_A_WORKER = {"reports", "beat", "return", "close"}
"""Asked of a session that has opened a worker of its own, if it may."""

#       reader stranger submitter steerer owner other worker run wrong_run root
SOCKET = {
    "open": Row("f f f f + + + f f +", body={"worker": {"name": "n", "group": "g", "pool": "other"}}),
    "reports": Row("n n n n + + + n n +", body={"reports": [{"task_id": ELSEWHERE, "run_id": 0, "kind": "started"}]}),
    "beat": Row("n n n n + + + n n +", body={}),
    "reclaim": Row("f n n f + f n + n +", body={"task_id": "TASK", "run_id": 0}),
    "return": Row("n n n n + + + n n +", body={"runs": []}),
    "close": Row("n n n n + + + n n +", body={}),
    "drain_worker": Row("f f f f + f f f f +", body={"id": "WORKER"}),
    "remove_worker": Row("f f f f + f f f f +", body={"id": "WORKER"}, once=True),
    "submit": Row("f f + f + + f f f +", body={"room": "lab", "tasks": [{"job": JOB}]}),
    "submit_each": Row("f f + f + + f f f +", body={"room": "lab", "tasks": [{"job": JOB}]}),
    "await": Row("+ + + + + + + + + +", body={"ids": ["TASK"]}),
    "unawait": Row("+ + + + + + + + + +", body={"ids": ["TASK"]}),
    "get": Row("+ n n + + + n + n +", body={"id": "TASK"}),
    "runs": Row("+ n n + + + n + n +", body={"id": "TASK"}),
    "logs": Row("+ n n + + + n + n +", body={"id": "TASK"}),
    "steps": Row("+ n n + + + n + n +", body={"id": "TASK"}),
    "send": Row("f n n + + f n + n +", body={"task_id": "TASK", "name": "approved", "id": ELSEWHERE}),
    "get_flow": Row("+ n n n + + n n n +", body={"id": "FLOW"}),
    "receive": Row("f n n f + f n + n +", body={"task_id": "TASK", "run_id": 0, "step": "a"}),
    "history": Row("+ n n + + + n + n +", body={"id": "TASK"}),
    "whoami": Row("+ + + + + + + + + +", body={}),
    "action": Row("f n n + + f n f n +", body={"id": "TASK", "action": "cancel"}, once=True),
    "actions": Row("f n n + + f n f n +", body={"ids": ["TASK"], "action": "cancel"}, once=True),
    "edits": Row("f n n + + f n f n +", "pending", body={"edits": [{"id": "TASK", "tags": {"a": "b"}}]}),
    "freeze": Row("+ . . . + + . . . +", body={}),
    "edit": Row("f n n + + f n f n +", "pending", body={"id": "TASK", "tags": {"a": "b"}}),
    "register": Row("f f f f + + f f f +", body={"room": "lab", "category": "tasks", "name": "add", "retain": True}),
    "job": Row("f n n + + + n n n +", body={"job": JOB, "paused": False}),
    "schedule": Row("f n n + + f n n n +", "ticking", body={"room": "lab", "name": "TARGET", "action": "pause"}),
    "limits": Row("+ . . . + + . . . +", "limited", body={"room": "lab"}),
    "put_limit": Row("f f f + + + f f f +", body={"room": "lab", "name": "TARGET", "concurrency": 1}, once=True),
    "delete_limit": Row("f f f + + + f f f +", "limited", body={"room": "lab", "name": "TARGET"}, once=True),
    "ping": Row("+ + + + + + + + + +", body={}),
    "watch": Row("+ . . . + + . . . +", body={"sub": "x", "topic": "tasks"}),
    "unwatch": Row("+ + + + + + + + + +", body={"sub": "x"}),
    "every": Row("+ + + + + + + + + +", body={"on": True}),
}


_IS_OURS = re.compile("/(webhooks|schedules|limits)")
"""What is named as the scene's target."""


@dataclass
class Scene:
    """A task of the owner's with a target, and his worker."""

    task_id: str
    worker_id: str
    target: str
    token_id: str
    flow_id: str
    credential: str | None = None
    """What the task's claim gave, if it has been claimed."""

    def filled(self, path: str) -> str:
        parts = {
            "room": "lab",
            "job_name": JOB,
            "task_id": self.task_id,
            "run_id:int": "0",
            "token_id": self.token_id,
            "flow_id": self.flow_id,
            "worker_id": self.worker_id,
            "upload_id": ELSEWHERE,
            "name:path": self.target,
            "name": self.target if _IS_OURS.search(path) else "forbidden",
        }
        for name, value in parts.items():
            path = path.replace(f"{{{name}}}", value)
        return path

    def body(self, given: Any) -> Any:
        if isinstance(given, dict):
            return {name: self.body(value) for name, value in given.items()}
        if isinstance(given, list):
            return [self.body(value) for value in given]
        parts = {"TASK": self.task_id, "WORKER": self.worker_id, "TARGET": self.target, "FLOW": self.flow_id}
        return parts.get(given, given) if isinstance(given, str) else given


class Site:
    """A server, and everybody's token."""

    def __init__(self, served: Served, client: httpx.AsyncClient, tokens: dict[str, str | None]) -> None:
        self.served = served
        self.client = client
        self.tokens = tokens
        self._numbers = itertools.count(1)

    def headers(self, who: str) -> dict[str, str]:
        token = self.tokens[who]
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    async def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return await self.client.request(method, path, json=body, headers=self.headers(who) | headers)

    async def do(self, who: str, method: str, path: str, body: Any = None) -> Any:
        answer = await self.ask(who, method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def scene(self, state: str) -> Scene:
        number = next(self._numbers)
        worker = await self.do("owner", "POST", "/v1/workers", {"name": "n", "group": "g"})
        job = {"category": "tasks", "name": "add", "worker_id": worker["id"], "retain": True}
        await self.do("owner", "PUT", "/v1/rooms/lab/jobs", job)
        made = await self.do("root", "POST", "/v1/tokens", {"name": "spare"})
        options = {"target": f"t{number}", "priority": number, "flow_name": JOB}
        task = await self.do("owner", "POST", f"/v1/rooms/lab/tasks/{JOB}", options)
        scene = Scene(task["id"], worker["id"], f"t{number}", made["id"], task["flow_id"])
        for verb, body in _WAY[state]:
            await self._step(scene, verb, body)
        if state == "stored":
            await self._store(scene)
        if state == "hooked":
            await self.do("owner", "PUT", f"/v1/rooms/lab/webhooks/{scene.target}", HOOK)
        if state == "limited":
            # One whose name tells of the room, as its job does.
            for name in (scene.target, JOB):
                await self.do("owner", "PUT", f"/v1/rooms/lab/limits/{name}", {"concurrency": 1})
        if state == "ticking":
            await self.do("owner", "PUT", f"/v1/rooms/lab/schedules/{scene.target}", TICKING)
        return scene

    async def claimed(self, state: str) -> Scene:
        """Return such a scene whose task has been claimed, and whose run goes on."""
        scene = await self.scene(state)
        if scene.credential is None:
            for verb, body in _WAY["running"]:
                await self._step(scene, verb, body)
        return scene

    async def _step(self, scene: Scene, verb: str, body: Any) -> None:
        done = await self.do("owner", "POST", verb.replace("TASK", scene.task_id), scene.body(body))
        if verb == "/v1/tasks/claim":
            assert done["task"]["id"] == scene.task_id
            scene.credential = done["task"]["credentials"]

    async def _store(self, scene: Scene) -> None:
        """Store an artifact that is named like the target."""
        wanted = {"name": scene.target, "content_length": 5}
        upload = await self.do("owner", "POST", f"/v1/tasks/{scene.task_id}/runs/0/artifacts", wanted)
        stored = await self.client.put(upload["put_url"], content=b"hello", headers=upload["headers"])
        assert stored.status_code == 201, stored.text

    async def told_of(self, scene: Scene) -> tuple[Any, ...]:
        """Return what a refusal must leave as it is."""
        task = await self.do("root", "GET", f"/v1/tasks/{scene.task_id}")
        worker = await self.do("root", "GET", f"/v1/workers/{scene.worker_id}")
        total = (await self.do("root", "GET", "/v1/tasks?limit=0"))["total"]
        workers = (await self.do("root", "GET", "/v1/workers?limit=0"))["total"]
        tokens = (await self.do("root", "GET", "/v1/tokens?limit=0"))["total"]
        seen = {name: value for name, value in worker.items() if name not in {"heartbeat_age", "running"}}
        return task, seen, total, workers, tokens


_CLAIM = ("/v1/tasks/claim", {"worker_id": "WORKER"})
_START = ("/v1/tasks/TASK/runs/0/started", None)
_WAY: dict[str, list[tuple[str, Any]]] = {
    "pending": [],
    "hooked": [],
    "ticking": [],
    "limited": [],
    "claimed": [_CLAIM],
    "running": [_CLAIM, _START],
    "stored": [_CLAIM, _START],
    "paused": [("/v1/tasks/TASK/pause", None)],
    "failed": [_CLAIM, _START, ("/v1/tasks/TASK/runs/0/failed", {"error": "no"})],
    "cancelled": [_CLAIM, _START, ("/v1/tasks/TASK/cancel", None)],
}


@asynccontextmanager
async def _site(data_dir: Path) -> AsyncIterator[Site]:
    clock = FakeClock()
    async with (
        serve(data_dir=data_dir, max_failed_tokens=0, clock=clock) as served,
        # Through the application, not the network: a thousand requests are asked here.
        httpx.AsyncClient(transport=httpx.ASGITransport(served.app), base_url=served.url, timeout=30) as client,
    ):
        site = Site(served, client, {"root": served.token, "none": None, "wrong": "tdl_wrong"})
        for name, scopes in SCOPES.items():
            given = {"name": name} if scopes is None else {"name": name, "scopes": scopes}
            site.tokens[name] = (await site.do("root", "POST", "/v1/tokens", given))["token"]
        soon = (clock.now() + timedelta(seconds=1)).isoformat()
        made = await site.do("root", "POST", "/v1/tokens", {"name": "expired", "superuser": True, "expires_at": soon})
        site.tokens["expired"] = made["token"]
        site.tokens["expired claim"] = (await site.scene("running")).credential
        # Also than the time in which artifacts may follow.
        clock.advance(3600)
        site.tokens["other claim"] = (await site.scene("running")).credential
        yield site


def cell(endpoint: Endpoint, answer: httpx.Response) -> str:
    """Return what was answered, as it stands in the table."""
    match answer.status_code:
        case 401:
            return "u"
        case 403:
            return "f"
        case 404:
            return "n"
        case 409 if "stale-run" in answer.text:
            return "s"
    assert answer.is_success, f"{endpoint.path}: {answer.status_code} {answer.text}"
    if endpoint.permission is Permission.CONTROL_MANY:
        return _of_many(answer.json())
    if endpoint.path == "/v1/stats":
        found = answer.json()
        return "+" if found["counts"] and found["jobs"] and found["workers"] else _blank(found)
    if endpoint.permission is Permission.READ_LIST:
        return "+" if JOB in answer.text else _blank(answer.json())
    return "+"


def _of_many(result: dict[str, Any]) -> str:
    if result["changed"]:
        return "+"
    [problem] = result["problems"]
    if problem["outcome"] == "missing":
        # As of a task that is not there: neither its version nor its status.
        assert (problem["version"], problem["status"]) == (None, None)
        return "n"
    return {"/v1/problems/forbidden": "f"}[problem["type"]]


def _blank(found: dict[str, Any]) -> str:
    """Return the sign of an answer that tells nothing of the room, not even how much there is."""
    if "counts" in found:
        assert (found["counts"], found["jobs"], found["workers"], found["slots"], found["used"]) == ({}, 0, {}, 0, 0)
    else:
        assert (found["items"], found.get("total", 0), found.get("ahead", 0)) == ([], 0, 0)
    return "."


def test_the_table_has_every_route_and_every_operation_g10() -> None:
    assert ROUTES.keys() == {f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS}
    assert SOCKET.keys() == OPS.keys()
    assert all(len(row.cells.split()) == len(COLUMNS) for row in ROUTES.values())
    assert all(len(row.cells.split()) == len(COLUMNS) - 3 for row in SOCKET.values())


def test_what_a_route_or_an_operation_needs_is_declared_and_the_open_ones_are_known_by_name_g10() -> None:
    open_ones = {e.path.removeprefix("/v1") for e in ENDPOINTS if e.permission is Permission.NOTHING}
    signed_ones = {e.path for e in ENDPOINTS if e.permission is Permission.SIGNATURE}

    assert all(isinstance(one.permission, Permission) for one in (*ENDPOINTS, *OPS.values()))
    assert open_ones == {"/healthz", "/readyz", "/problems/{name}", "/openapi.json"}
    assert signed_ones == {"/v1/uploads/{upload_id}"}
    assert not any(op.permission.is_open for op in OPS.values())


async def test_every_route_answers_everybody_as_the_table_says_and_a_refusal_changes_nothing_c8_g9_g10(
    tmp_path: Path,
) -> None:
    wrong: dict[str, str] = {}
    async with _site(tmp_path) as site:
        endpoints = {f"{endpoint.method} {endpoint.path}": endpoint for endpoint in ENDPOINTS}
        for route, row in ROUTES.items():
            endpoint = endpoints[route]
            wanted = dict(zip(COLUMNS, row.cells.split(), strict=True))
            wanted |= (
                {} if endpoint.permission.is_open else {who: wanted[column] for who, (_, column) in NARROWED.items()}
            )
            found = await _row(site, endpoint, row, wanted)
            if found != wanted:
                wrong[route] = " ".join(found.values())

    assert wrong == {}


async def test_every_route_answers_a_claims_credential_as_the_scope_that_it_holds_c9_g10(tmp_path: Path) -> None:
    """Of this run, of another run, expired: signed ones, from claims."""
    wrong: dict[str, str] = {}
    async with _site(tmp_path) as site:
        endpoints = {f"{endpoint.method} {endpoint.path}": endpoint for endpoint in ENDPOINTS}
        for route, row in ROUTES.items():
            if row.state in ENDED:
                continue
            endpoint = endpoints[route]
            table = dict(zip(COLUMNS, row.cells.split(), strict=True))
            wanted = {who: table[column] for who, column in CREDENTIALS.items()} | {"expired claim": table["expired"]}
            found = await _by_credentials(site, row, wanted, partial(_cell, endpoint=endpoint))
            if found != wanted:
                wrong[route] = f"{found}, not {wanted}"

    assert wrong == {}


async def _by_credentials(
    site: Site, row: Row, wanted: dict[str, str], ask: Callable[[Site, Scene, str, Row], Awaitable[str]]
) -> dict[str, str]:
    """How each of the claims' credentials is answered; what can be done once is done to a claim of its own."""
    found, scene = {}, await site.claimed(row.state)
    for who, expected in wanted.items():
        own = await site.claimed(row.state) if row.once and expected == "+" else scene
        site.tokens["claim"] = own.credential
        found[who] = await ask(site, own, who, row)
    return found


async def test_every_operation_answers_a_claims_credential_as_the_scope_that_it_holds_c9_g10(tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    async with _site(tmp_path) as site:
        # A report needs no open worker, but to be of the credential's run; whether there is another is not looked up.
        rows = SOCKET | {"reports": Row("n n n n + n n + f +", body=OF_RUN)}
        for name, row in rows.items():
            table = dict(zip(COLUMNS[3:], row.cells.split(), strict=True))
            wanted = {who: table[column] for who, column in CREDENTIALS.items()}
            found = await _by_credentials(site, row, wanted, partial(_op, name=name))
            if found != wanted:
                wrong[name] = f"{found}, not {wanted}"

    assert wrong == {}


async def _row(site: Site, endpoint: Endpoint, row: Row, wanted: dict[str, str]) -> dict[str, str]:
    scene = await site.scene(row.state)
    before = await site.told_of(scene)
    reads = endpoint.method == "GET" or endpoint.permission is Permission.READ_LIST
    found = dict.fromkeys(wanted, "?")
    for who, expected in wanted.items():
        if reads or expected != "+":
            found[who] = await _cell(site, scene, who, row, endpoint)
    assert await site.told_of(scene) == before, f"{endpoint.path}: a refused request changed something"
    for who in [who for who, cell in found.items() if cell == "?"]:
        own = await site.scene(row.state) if row.once else scene
        found[who] = await _cell(site, own, who, row, endpoint)
    return found


async def _cell(site: Site, scene: Scene, who: str, row: Row, endpoint: Endpoint) -> str:
    asker, scopes_of = NARROWED.get(who, (who, None))
    more = {} if scopes_of is None else {HEADER: json.dumps(SCOPES[scopes_of])}
    path, body = scene.filled(endpoint.path), scene.body(row.body)
    return cell(endpoint, await site.ask(asker, endpoint.method, path, body, **more))


async def test_every_operation_of_the_socket_answers_everybody_as_the_table_says_g10(tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    async with _site(tmp_path) as site:
        for name, row in SOCKET.items():
            scene = await site.scene(row.state)
            found = []
            for who, expected in zip(COLUMNS[3:], row.cells.split(), strict=True):
                own = await site.scene(row.state) if row.once and expected == "+" else scene
                found.append(await _op(site, own, who, row, name))
            if found != row.cells.split():
                wrong[name] = " ".join(found)

    assert wrong == {}


async def _op(site: Site, scene: Scene, who: str, row: Row, name: str) -> str:
    async with connected(site.served, site.tokens[who]) as socket:
        if name in OPS_OF_A_WORKER and who not in CREDENTIALS:
            await socket.ask("open", **SOCKET["open"].body or {})
        answer = await socket.ask(name, **scene.body(row.body))
        if "problem" in answer:
            return {403: "f", 404: "n", 409: "s"}[answer["problem"]["status"]]
        return await _told(socket, name, answer["ok"])


async def _told(socket: Socket, name: str, ok: Any) -> str:
    match name:
        case "reports":
            [report] = ok["answers"]
            # What is not there at all is nobody's: that the operation was open to the asker is what counts.
            return "+" if report["task_id"] == ELSEWHERE else {200: "+", 403: "f", 404: "n"}[report["status"]]
        case "limits":
            return "+" if ok["items"] else "."
        case "submit_each":
            [task] = ok["tasks"]
            return "+" if "problem" not in task else {403: "f"}[task["problem"]["status"]]
        case "actions" | "edits":
            return _of_many(ok)
        case "freeze":
            return "+" if ok["items"] else "."
        case "watch":
            rows = await socket.pushed("snapshot")
            return "+" if rows["total"] and rows["rows"] else "."
    return "+"


async def test_no_socket_opens_without_a_valid_token_g10(tmp_path: Path) -> None:
    async with _site(tmp_path) as site:
        for who in ("none", "wrong", "expired", "expired claim"):
            for headers, fields in ((site.headers(who), {}), ({}, {"token": site.tokens[who]})):
                given = {name: value for name, value in fields.items() if value is not None}
                async with connect(url_of(site.served), additional_headers=headers) as connection:
                    socket = Socket(connection)
                    await socket.send({"op": "hello", "protocol": 1, **given})
                    assert await socket.closed() == 4401, who
