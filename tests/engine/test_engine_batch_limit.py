"""How many tasks one transaction writes: the setting that `treadle bench batching` compares with the default."""

import asyncio

import pytest

from treadle import Client, task
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio


@task
async def noop(n: int) -> None: ...


@pytest.mark.parametrize(("most", "transactions"), [(1, 6), (4, 2), (1000, 1)])
async def test_submits_that_came_in_one_frame_are_written_within_the_limit(most: int, transactions: int) -> None:
    async with serve(writer_max_rows=most) as served, Client(served.url, served.token) as client:
        await noop.submit(n=0)
        sizes: list[int] = []
        served.engine.hub.listen(lambda batch: sizes.append(len(batch.tasks)))
        await asyncio.gather(*(client.submit(noop.bind(n=n)) for n in range(6)))

    assert sum(sizes) == 6
    assert max(sizes) <= most
    assert len(sizes) == transactions
