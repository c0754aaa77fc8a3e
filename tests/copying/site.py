"""A server with something of everything in it, and what is done there before a copy and after it."""

from typing import Any

import httpx
import pytest

from tests.worker.conftest import working_at
from treadle import Client, Context, Cron, Options, task
from treadle.errors import TaskFailed
from treadle_server.testing import Served


@task(category="tasks", max_retries=0)
async def work(ctx: Context, n: int, data: dict[str, Any] | None = None) -> dict[str, Any]:
    ctx.log(f"line of {n}")
    await ctx.save({"at": n})
    if n < 0:
        raise ValueError(f"{n} is negative")
    await ctx.upload(b"bytes", name="result.txt")
    return {"n": n, "odd": 0.1, "text": "zwölf\u2028🧵", "large": 10**40}


@task(category="tasks", max_retries=0, schedule=Cron("0 3 * * *", tz="Europe/Berlin"))
def nightly() -> None:
    return None


ODD = {"b": 1e2, "a": [1.0, 1e-7, 123456789012345678901234567890, -0.0], "ü": {"z": None, "y": True}}
"""JSON that PostgreSQL writes otherwise than it came."""


async def fill(served: Served, artifacts: Any) -> str:
    """Submit tasks, run some of them, and leave others in every state; return a token that was made there."""
    async with Client(served.url, served.token) as client:
        async with working_at(served.url, served.token, work, nightly):
            done = [await client.submit(work.bind(n, data=ODD)) for n in range(5)]
            failed = await client.submit(work.bind(-1))
            for handle in done:
                await handle.result(timeout=60)
            with pytest.raises(TaskFailed):
                await failed.result(timeout=60)
        for n in range(20):
            options = Options(priority=n % 3, tags={"kind": "later", "nested": ODD}, target=f"t{n % 2}")
            await client.submit(work.bind(100 + n, data=ODD, options=options))
        await client.submit(work.bind(200, options=Options(delay=3600, unique_key="once")))
        paused = await client.submit(work.bind(201))
        await paused.pause()
        cancelled = await client.submit(work.bind(202))
        await cancelled.cancel()
        await client.set_webhook("hook", "https://example.org/hook", room="@global")
        return (await client.create_token("copied", superuser=True)).token


async def go_on(served: Served, token: str) -> None:
    """Do what a server is for, where everything has been copied to: by its old token, and on with what was left."""
    async with Client(served.url, token) as client:
        waiting = [item async for item in client.list("status:pending")]
        assert len(waiting) == 20
        [paused] = (await client.list("status:paused")).items
        [scheduled] = (await client.list("status:scheduled")).items
        new = await client.submit(work.bind(300))
        assert (await client.submit(work.bind(200, options=Options(unique_key="once")))).id == scheduled.id
        async with working_at(served.url, token, work):
            await client.handle(paused.id).resume()
            for item in waiting:
                assert (await client.handle(item.id).result(timeout=60))["n"] == item.payload["n"]
            assert (await new.result(timeout=60))["large"] == 10**40
            assert (await client.handle(paused.id).result(timeout=60))["n"] == 201
        counts = (await client.stats()).counts
        assert (counts["completed"], counts["failed"], counts["cancelled"], counts["scheduled"]) == (27, 1, 1, 1)
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        seen = (await http.get("/v1/rooms/@global/schedules")).json()["items"]
        assert [item["name"] for item in seen] == ["tasks:nightly"]
