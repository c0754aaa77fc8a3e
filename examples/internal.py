"""Tasks that the server runs itself, in its own process.

Run `treadle server --internal examples.internal:registry`, then `treadle submit @internal:tasks:tidy days=30 --wait`.
"""

import asyncio

from treadle import Context, task
from treadle.internal import InternalRegistry


@task(room="@internal")
def greet(name: str = "World") -> str:
    return f"Hello, {name}, from the server"


@task(room="@internal", max_retries=1, timeout=600)
async def tidy(ctx: Context, days: int = 7) -> int:
    """Tidy up one day at a time; resume at the same day after a pause, or after the server was killed."""
    for day in range(ctx.checkpoint or 0, days):
        await asyncio.sleep(0.1)
        await ctx.save(day + 1)
        ctx.progress((day + 1) / days, f"day {day + 1} of {days}")
    return days


registry = InternalRegistry([greet, tidy])
