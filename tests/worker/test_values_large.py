"""N1: values that fill a frame each, and more results than a session holds, reach who is to have them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.waiting import until
from tests.worker.conftest import working_at
from treadle import Client, Context, Flow, Retry, task
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio

MOST_OF_A_FRAME = 9_000_000
QUEUE = 65_536
"""Bytes that wait on a session at most: the least that a server may be set to."""


@task(name="keeps_all", max_retries=1)
async def keeps_all(ctx: Context, text: str) -> str:
    """Is begun again from its checkpoint, and returns as much as it was given."""
    if ctx.checkpoint is None:
        await ctx.save(text)
        raise Retry(after=0)
    return str(ctx.checkpoint)


@task(name="much")
async def much(size: int) -> str:
    return "x" * size


@task(name="measures")
async def measures(text: str) -> int:
    return len(text)


@pytest.fixture
async def narrow(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(database_url, data_dir=tmp_path, session_queue_bytes=QUEUE) as served:
        yield served


async def test_a_task_whose_values_fill_a_frame_each_is_run_and_its_result_told_n1(tmp_path: Path) -> None:
    """Its claim is larger than what a worker may send, and so is what its client waits for."""
    async with (
        serve(data_dir=tmp_path) as server,
        Client(server.url, server.token) as client,
        working_at(server.url, server.token or "", keeps_all),
    ):
        handle = await client.submit(keeps_all.bind("x" * MOST_OF_A_FRAME))

        assert await handle.result(timeout=60) == "x" * MOST_OF_A_FRAME
        whole = await client.get(handle.id)

    assert [len(value) for value in (whole.payload["text"], whole.checkpoint, whole.result)] == [MOST_OF_A_FRAME] * 3


async def test_more_results_than_a_session_holds_all_come_n1(narrow: Served) -> None:
    """Those that are there when they are asked for, and those of which many end at once."""
    async with Client(narrow.url, narrow.token) as client, Client(narrow.url, narrow.token) as other:
        waited = await client.submit_many([much.bind(30_000) for _ in range(40)])
        waiting = asyncio.gather(*(handle.result(timeout=60) for handle in waited))
        async with working_at(narrow.url, narrow.token or "", much, concurrency=40):
            await until(lambda: other.list(status="completed", limit=0), lambda page: page.total == 40)
            late = await asyncio.gather(*(other.handle(one.id).result(timeout=60) for one in waited))
            found = await asyncio.gather(*(other.get(one.id) for one in waited))

        assert [len(result) for result in await waiting] == [30_000] * 40
    assert [len(result) for result in late] == [30_000] * 40
    assert [len(one.result) for one in found] == [30_000] * 40


async def test_claims_that_carry_more_than_a_session_holds_all_come_n1(narrow: Served) -> None:
    """Twenty at once, each with the result of the task that it waited for."""
    flow = Flow()
    source = flow.add(much, 200_000)
    ends = [flow.add(measures, source) for _ in range(20)]
    async with Client(narrow.url, narrow.token) as client:
        await flow.submit(client)
        async with working_at(narrow.url, narrow.token or "", much, measures, concurrency=20):
            results = await asyncio.gather(*(client.handle(flow.id_of(end)).result(timeout=60) for end in ends))
            runs = await asyncio.gather(*(client.handle(flow.id_of(end)).runs() for end in ends))

    assert results == [200_000] * 20
    assert [len(of_one) for of_one in runs] == [1] * 20
