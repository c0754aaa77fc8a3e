"""A task of many steps, for tests that kill its worker: within every other step, and behind the others."""

import asyncio
import os
from pathlib import Path

from treadle import Context, task


def place() -> Path:
    return Path(os.environ["TREADLE_TEST_MARKS"])


async def _opened(k: int) -> None:
    """Wait until the test has killed the worker that was here first."""
    while not (place() / f"open-{k}").exists():
        await asyncio.sleep(0.01)


async def effect(k: int) -> int:
    with (place() / "effects").open("a") as file:
        file.write(f"{k}\n")
    if k % 2 == 0:
        await _opened(k)
    return k


@task(max_requeues=100, lease_seconds=3.0)
async def climb(ctx: Context, steps: int) -> int:
    total = 0
    for k in range(steps):
        total += await ctx.step("number", effect, k)
        if k % 2:
            await _opened(k)
    return total
