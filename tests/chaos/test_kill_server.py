"""A server that is killed without warning in the middle of its work."""

import asyncio
import json
from collections import Counter
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.chaos.processes import running_server

pytestmark = pytest.mark.anyio

TASKS = 5_000
JOB = "@global:tasks:noop"


def _register(server) -> None:
    answer = httpx.put(
        f"{server.url}/v1/rooms/@global/jobs",
        headers=server.headers,
        json={"category": "tasks", "name": "noop", "schema": {}, "retain": True},
    )
    assert answer.status_code == 201, answer.text


def _all_tasks(server) -> list[dict]:
    found = []
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=30) as client:
        while True:
            page = client.get("/v1/tasks", params={"limit": 500, "offset": len(found)}).raise_for_status().json()
            found += page["items"]
            if not page["items"]:
                return found


async def _submit_all(server, acknowledged: list[str], enough: asyncio.Event) -> None:
    """Submit every task in a request of its own, and note which were acknowledged before the socket broke."""
    asked: dict[int, str] = {}
    async with connect(server.socket_url, additional_headers=server.headers, max_size=None) as socket:
        await socket.send(json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1}]}))

        async def send() -> None:
            for n in range(1, TASKS + 1, 20):
                items = []
                for number in range(n, n + 20):
                    asked[number] = str(uuid4())
                    task = {"job": JOB, "payload": {"n": number}, "id": asked[number]}
                    items.append({"op": "submit", "n": number, "room": "@global", "tasks": [task]})
                await socket.send(json.dumps({"items": items}))

        async def receive() -> None:
            async for frame in socket:
                for item in json.loads(frame)["items"]:
                    if item.get("re"):
                        assert "ok" in item, item
                        acknowledged.append(asked[item["re"]])
                if len(acknowledged) >= TASKS // 4:
                    enough.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            group.create_task(receive())


async def test_g1_no_acknowledged_submit_is_lost_or_doubled_by_kill_9(tmp_path, database_url) -> None:
    """A server is killed in the middle of 5,000 concurrent submits: what it acknowledged is there, once (G1)."""
    acknowledged: list[str] = []
    enough = asyncio.Event()
    with running_server(tmp_path, database_url) as server:
        _register(server)

        async def kill() -> None:
            await enough.wait()
            server.kill()

        async def submit() -> None:
            try:
                await _submit_all(server, acknowledged, enough)
            except* ConnectionClosed:
                pass

        async with asyncio.TaskGroup() as group:
            group.create_task(submit())
            group.create_task(kill())
        assert len(acknowledged) >= TASKS // 4
        server.start()
        kept = Counter(task["id"] for task in _all_tasks(server))

    assert len(acknowledged) == len(set(acknowledged))
    assert set(acknowledged) <= kept.keys()
    assert set(kept.values()) == {1}
    assert len(acknowledged) < TASKS, "the server was to be killed before the end"
