"""Lists: a page when awaited, everything when gone through; the same with the blocking client."""

import asyncio
from typing import Any

import pytest

from treadle import Client, SyncClient, task


@task
def first(n: int) -> int:
    return n


@task
def second(n: int) -> int:
    return n


@task
def third(n: int) -> int:
    return n


@pytest.fixture
def submitted(treadle_server: Any) -> list[str]:
    """Five tasks of three jobs, the newest first."""
    with SyncClient(treadle_server.url, treadle_server.token) as client:
        handles = [client.submit(kind.bind(1)) for kind in (first, first, first, second, third)]
    return [handle.id for handle in handles][::-1]


def test_lists_are_gone_through_page_by_page(treadle_server: Any, submitted: list[str]) -> None:
    async def read() -> None:
        async with Client(treadle_server.url, treadle_server.token) as client:
            page = await client.list(limit=2)
            assert ([item.id for item in page], len(page), page.total) == (submitted[:2], 2, 5)
            assert [item.id async for item in client.list(limit=2)] == submitted
            assert [item.id async for item in client.list(limit=2, offset=1)] == submitted[1:]
            assert [item.id async for item in client.list()] == submitted
            assert [item.id async for item in client.list(limit=0)] == []
            # By offset, as all lists but that of tasks.
            assert len([job async for job in client.jobs(limit=2)]) == 3
            assert [item async for item in client.targets()] == []

    asyncio.run(read())


def test_a_blocking_client_goes_through_them_too(treadle_server: Any, submitted: list[str]) -> None:
    with SyncClient(treadle_server.url, treadle_server.token) as client:
        page = client.list(limit=2)
        assert ([item.id for item in page.items], page.total) == (submitted[:2], 5)
        assert [item.id for item in page] == submitted
        assert len(list(client.jobs(limit=1))) == 3
        assert list(client.workers()) == []
