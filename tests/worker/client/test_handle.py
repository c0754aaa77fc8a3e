"""How long a submitter waits for a result: seconds or a timedelta, as everywhere else."""

import asyncio
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from treadle import Client, WaitTimeout, task
from treadle.errors import InvalidArguments
from treadle.testing.inline import InlineWorker

pytestmark = pytest.mark.anyio


@task
def double(n: int) -> int:
    return 2 * n


@pytest.mark.parametrize("limit", [0.01, timedelta(milliseconds=10), timedelta(0), -1])
async def test_a_wait_ends_after_so_many_seconds_or_a_timedelta(treadle_server: Any, limit: Any) -> None:
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(1))
        for waiting in (handle.result, handle.wait):
            with pytest.raises(WaitTimeout, match=f"{handle.id} had not ended after .* s; it goes on"):
                await waiting(limit)


@pytest.mark.parametrize("limit", [nan, "5", True, [1]])
async def test_what_is_no_duration_is_refused_by_name(treadle_server: Any, limit: Any) -> None:
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(1))
        with pytest.raises(InvalidArguments, match=r"timeout=.* is a duration: a number of seconds, or a timedelta"):
            await handle.result(limit)


def _work(served: Any) -> None:
    with InlineWorker([double], url=served.url, token=served.token) as worker:
        worker.run_all()


@pytest.mark.parametrize("limit", [None, inf, timedelta.max])
async def test_a_wait_without_end_has_the_result(treadle_server: Any, limit: Any) -> None:
    async with Client(treadle_server.url, treadle_server.token) as client:
        handle = await client.submit(double.bind(4))
        await asyncio.to_thread(_work, treadle_server)
        assert await handle.result(limit) == 8
