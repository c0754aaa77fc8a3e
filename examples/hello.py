"""Two tasks to try Treadle with.

Run `treadle worker examples.hello`, then `treadle submit @global:tasks:hello name=World --wait`.
"""

import asyncio

from treadle import Context, task


@task
def hello(name: str = "World") -> str:
    return f"Hello, {name}!"


@task(max_retries=1, timeout=600)
async def count(ctx: Context, to: int = 10, seconds: float = 1.0) -> int:
    """Count, report progress, and resume from the last number after a pause or a lost worker."""
    for number in range(ctx.checkpoint or 0, to):
        await asyncio.sleep(seconds)
        await ctx.save(number + 1)
        ctx.progress((number + 1) / to, f"{number + 1} of {to}")
    return to
