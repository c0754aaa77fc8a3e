"""Tasks that say at every moment that they run: what shows whether two of a target ever did at once."""

import asyncio
import os
import time
from pathlib import Path

from tests.lines import append
from treadle import Context, Limit, task

STEP = 0.01
"""Seconds between two marks."""


def trace(n: int) -> None:
    """Append who runs which task now, on the clock that all processes of the machine share."""
    line = f"{time.monotonic():.4f} {os.environ['TREADLE_TEST_NAME']} {n}"
    append(os.environ["TREADLE_TEST_TRACE"], line)


def gate(n: int) -> Path:
    """The file whose presence lets task `n` end."""
    return Path(f"{os.environ['TREADLE_TEST_TRACE']}.{n}")


@task(lease_seconds=3, max_requeues=20)
async def cooperates(n: int) -> str:
    while not gate(n).exists():
        trace(n)
        await asyncio.sleep(STEP)
    return os.environ["TREADLE_TEST_NAME"]


@task(lease_seconds=3, max_requeues=20)
def blocks(n: int) -> str:
    """A function that knows nothing of stopping."""
    while not gate(n).exists():
        trace(n)
        time.sleep(STEP)
    return os.environ["TREADLE_TEST_NAME"]


# Renewed after a third of it at the latest, so that more of it is left than the seconds of a standstill.
@task(lease_seconds=9, max_requeues=20, isolation="process", limits=[Limit("one", concurrency=1)])
def alone(n: int) -> str:
    """A function of which one may run at a time, but that has no target."""
    while not gate(n).exists():
        trace(n)
        time.sleep(STEP)
    return os.environ["TREADLE_TEST_NAME"]


@task(lease_seconds=3, max_requeues=20)
async def ignores(n: int) -> str:
    """A coroutine that goes on although it is cancelled."""
    while not gate(n).exists():
        trace(n)
        try:
            await asyncio.sleep(STEP)
        except asyncio.CancelledError:
            continue
    return os.environ["TREADLE_TEST_NAME"]


@task(lease_seconds=3, max_requeues=20)
async def unaware(ctx: Context, n: int) -> str:
    """A task without a target, in whose midst its worker dies."""
    while not gate(n).exists():
        trace(n)
        await asyncio.sleep(STEP)
    return f"run {ctx.run_id}"
