"""A job of its own, for a worker that will be killed."""

import asyncio

from treadle import task


@task(category="analysis")
async def measure(frame: int) -> None:
    await asyncio.Event().wait()
