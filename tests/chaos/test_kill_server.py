"""A server that is killed without warning in the middle of its work."""

import asyncio
import itertools
import json
from collections import Counter
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.chaos.processes import running_server

pytestmark = pytest.mark.anyio

ENOUGH = 2_500
"""Acknowledged submits after which the server is killed, while as many as it takes go on being sent."""

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


async def _submit_until_killed(server) -> tuple[list[str], set[str]]:
    """Submit tasks, each in a request of its own, without an end; kill the server when `ENOUGH` are acknowledged.

    Return the ids that were acknowledged before the socket broke, and all that were sent.
    """
    asked: dict[int, str] = {}
    acknowledged: list[str] = []
    is_killed = False

    async def send(socket: ClientConnection) -> None:
        for first in itertools.count(1, 20):
            items = []
            for number in range(first, first + 20):
                asked[number] = str(uuid4())
                task = {"job": JOB, "payload": {"n": number}, "id": asked[number]}
                items.append({"op": "submit", "n": number, "room": "@global", "tasks": [task]})
            await socket.send(json.dumps({"items": items}))

    async def receive(socket: ClientConnection) -> None:
        nonlocal is_killed
        async for frame in socket:
            for item in json.loads(frame)["items"]:
                if item.get("re"):
                    assert "ok" in item, item
                    acknowledged.append(asked[item["re"]])
            if len(acknowledged) >= ENOUGH and not is_killed:
                # What it had sent before is still read: those answers count.
                is_killed = True
                server.kill()

    try:
        async with connect(server.socket_url, additional_headers=server.headers, max_size=None) as socket:
            await socket.send(json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1}]}))
            async with asyncio.TaskGroup() as group:
                group.create_task(send(socket))
                group.create_task(receive(socket))
    except* ConnectionClosed:
        pass
    return acknowledged, set(asked.values())


async def test_g1_no_acknowledged_submit_is_lost_or_doubled_by_kill_9(tmp_path, database_url) -> None:
    """A server is killed in the middle of concurrent submits: what it acknowledged is there, once (G1)."""
    with running_server(tmp_path, database_url) as server:
        _register(server)

        acknowledged, asked = await _submit_until_killed(server)

        assert ENOUGH <= len(acknowledged) < len(asked)
        server.start()
        kept = Counter(task["id"] for task in _all_tasks(server))

    assert len(acknowledged) == len(set(acknowledged))
    assert set(acknowledged) <= kept.keys() <= asked
    assert set(kept.values()) == {1}
