"""Many are let pass at once."""

import asyncio

import pytest

from treadle_server.live.pace import Pace

pytestmark = pytest.mark.anyio


async def test_one_alone_passes_at_once_and_what_follows_passes_together():
    """T10."""
    async with asyncio.timeout(30):
        await Pace(3600).turn()

    pace, loop = Pace(0.2), asyncio.get_running_loop()
    began = loop.time()
    await pace.turn()
    waiting = [asyncio.ensure_future(pace.turn()) for _ in range(50)]
    await waiting[0]
    passed = loop.time() - began
    await asyncio.sleep(0)

    assert passed >= 0.2
    assert all(one.done() for one in waiting)


async def test_whoever_stops_waiting_holds_nobody_up():
    pace = Pace(0.05)
    await pace.turn()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await pace.turn()
    async with asyncio.timeout(20):
        await pace.turn()
        await pace.turn()
