"""What code says and asks of its run from wherever it runs in the worker's process."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from treadle import Client, Context, task

pytestmark = pytest.mark.anyio


def all_of_it(ctx: Context) -> str:
    """Say and ask for everything that blocks where code is not async."""
    ctx.log("begun")
    ctx.progress(0.5, "half")
    ctx.spend(2)
    ctx.save({"page": 7})
    ctx.upload(b"drawn", name="plot.txt")
    return str(ctx.credentials())


@task(max_retries=0)
async def in_a_thread(ctx: Context) -> str:
    return await asyncio.to_thread(all_of_it, ctx)


@task(max_retries=0)
async def in_a_step(ctx: Context) -> str:
    said: str = await ctx.step("all of it", all_of_it, ctx)
    return said


@task(max_retries=0)
async def in_a_loop_of_its_own(ctx: Context) -> str:
    async def all_of_it_awaited() -> str:
        ctx.log("begun")
        ctx.progress(0.5, "half")
        ctx.spend(2)
        await ctx.save({"page": 7})
        await ctx.upload(b"drawn", name="plot.txt")
        return str(await ctx.credentials())

    return await asyncio.to_thread(lambda: asyncio.run(all_of_it_awaited()))


@pytest.mark.parametrize("said", [in_a_thread, in_a_step, in_a_loop_of_its_own], ids=lambda said: said.__name__)
async def test_the_threads_of_an_async_task_say_and_ask_for_all_that_those_of_a_sync_one_do(
    client: Client, working: Any, said: Callable[..., Any]
) -> None:
    async with working(said):
        handle = await said.submit()  # type: ignore[attr-defined]

        assert await handle.result(timeout=30)

    ended = await handle.get()
    assert (ended.checkpoint, ended.usage) == ({"page": 7}, 2)
    assert [line.message for line in await client.logs(handle.id)] == ["begun"]
    assert [file.name for file in await handle.artifacts()] == ["plot.txt"]


async def test_what_threads_say_and_spend_counts_though_their_async_task_ends_before_the_loop_goes_on(
    client: Client, working: Any
) -> None:
    @task(max_retries=0)
    async def blocking(ctx: Context) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ctx.spend, 2).result()
            pool.submit(ctx.log, "done").result()

    async with working(blocking):
        handle = await blocking.submit()

        assert (await handle.wait(timeout=30)).usage == 2
    assert [line.message for line in await client.logs(handle.id)] == ["done"]
