"""The task that `tests.bench.sleepers` puts to sleep, for its worker process."""

import time

from treadle import Context, task


@task
async def sleeper(ctx: Context, at: float) -> float:
    """Sleep until an instant, and return how late it was."""
    await ctx.sleep(max(0.0, at - time.time()))
    return time.time() - at
