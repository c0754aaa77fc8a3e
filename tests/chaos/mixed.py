"""Tasks that end in every way, for workers that are killed meanwhile."""

import asyncio

from treadle import task


@task(max_requeues=50, max_retries=0, lease_seconds=2)
async def mixed(n: int) -> int:
    """End well, or in every fifth not."""
    await asyncio.sleep(0.05)
    if n % 5 == 0:
        raise ValueError("a fifth")
    return n
