"""Tasks for workers on a network that misbehaves."""

import asyncio

from treadle import task


@task(max_requeues=50, max_retries=0)
async def burden(n: int, seconds: float = 0.0) -> int:
    await asyncio.sleep(seconds)
    return n
