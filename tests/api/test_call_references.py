"""Where an answer leads its reader: below the address at which the server is reached."""

import httpx
import pytest

from treadle_server.testing import serve


@pytest.mark.parametrize("public_url", ["", "https://example.org/queue", "https://example.org/queue/"])
async def test_what_was_made_is_told_below_the_public_url(public_url: str) -> None:
    """Behind a proxy that serves it under a path, a bare path led past the server."""
    async with (
        serve(public_url=public_url) as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers) as client,
    ):
        await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add"})
        await client.put("/v1/rooms/lab/schedules/hourly", json={"job": "lab:tasks:add", "interval": 3600})

        worker = await client.post("/v1/workers")
        task = await client.post("/v1/rooms/lab/tasks/lab:tasks:add")
        tick = await client.post("/v1/rooms/lab/schedules/hourly/run")

    base = public_url.rstrip("/")
    assert worker.headers["location"] == f"{base}/v1/workers/{worker.json()['id']}"
    assert task.headers["location"] == f"{base}/v1/tasks/{task.json()['id']}"
    assert tick.headers["location"] == f"{base}/v1/tasks/{tick.json()['id']}"
