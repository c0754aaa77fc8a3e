"""Many workers in one process, for the curve over their number: 200 processes would measure the machine's memory."""

import asyncio

from treadle.bench.role import say, stopped
from treadle.bench.tasks import make_job, stamp
from treadle.worker.worker import Worker


async def crew(url: str, token: str, *, workers: int, concurrency: int) -> dict[str, int]:
    """Play so many workers, each with a socket of its own, until stopped."""
    hands = [
        Worker([make_job(0), stamp], concurrency=concurrency, url=url, token=token, name=f"hand-{i}", drain_grace=2)
        for i in range(workers)
    ]
    async with asyncio.TaskGroup() as group:
        for hand in hands:
            group.create_task(hand.run_async())
        for hand in hands:
            await hand.ready.wait()
        say({"ready": workers})
        await stopped()
        for hand in hands:
            hand.stop()
    return {"workers": workers}
