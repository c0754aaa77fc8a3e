"""Many workers in one process, for the curve over their number: 200 processes would measure the machine's memory."""

import asyncio

from treadle.worker.worker import Worker
from treadle_bench.loads.process import say, stopped
from treadle_bench.loads.tasks import make_job, stamp


async def serve(url: str, token: str, *, workers: int, concurrency: int) -> dict[str, int]:
    """Run this many workers, each with a socket of its own, until stopped."""
    started = [
        Worker([make_job(0), stamp], concurrency=concurrency, url=url, token=token, name=f"worker-{i}", drain_grace=2)
        for i in range(workers)
    ]
    async with asyncio.TaskGroup() as group:
        for worker in started:
            group.create_task(worker.run_async())
        for worker in started:
            await worker.ready.wait()
        say({"ready": workers})
        await stopped()
        for worker in started:
            worker.stop()
    return {"workers": workers}
