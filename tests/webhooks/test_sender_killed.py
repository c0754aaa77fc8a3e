"""A server that is killed without warning loses no outcome that a webhook is to be told (E12, G1)."""

import asyncio

import httpx
import pytest

from tests.chaos.processes import running_server
from tests.webhooks.receiver import receiving

pytestmark = pytest.mark.anyio

SETTINGS = {"TREADLE_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "TREADLE_WEBHOOK_TIMEOUT_SECONDS": "1"}


async def cancelled(client: httpx.AsyncClient) -> str:
    task_id = (await client.post("/v1/rooms/lab/tasks/lab:tasks:x")).json()["id"]
    assert (await client.post(f"/v1/tasks/{task_id}/cancel")).status_code == 200
    return str(task_id)


async def test_kill_9_between_an_outcome_and_its_delivery_or_a_delivery_and_its_note_tells_it_all_the_same_e12_g1(
    tmp_path,
) -> None:
    """One outcome's receiver is not there yet, another's has got it and the server is killed before it knows."""
    async with receiving() as receiver, receiving() as absent:
        await absent.stop()
        release = asyncio.Event()
        receiver.answers = [lambda _writer: release.wait()]
        with running_server(tmp_path, f"sqlite:///{tmp_path}/treadle.db", **SETTINGS) as server:
            async with httpx.AsyncClient(base_url=server.url, headers=server.headers) as client:
                await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "x", "retain": True})
                for name, one in (("here", receiver), ("absent", absent)):
                    await client.put(f"/v1/rooms/lab/webhooks/{name}", json={"url": one.url})
                task_id = await cancelled(client)
                await receiver.until(1)
                server.kill()
                release.set()
            await absent.start()
            server.start()

            first, second = await receiver.until(2)
            [late] = await absent.until(1)

    assert (first.id, first.body) == (second.id, second.body)
    assert {got.said["data"]["id"] for got in (first, second, late)} == {task_id}
