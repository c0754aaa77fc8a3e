"""Tasks that write down themselves that they run: what the workers of a storm serve."""

import asyncio
import time

from tests.history.journal import Journal
from treadle import Context, task
from treadle.clock import monotonic

LEASE = 6.0
"""Seconds."""

STEP = 0.05
"""Seconds between two marks."""

DEFAULTS = {
    "lease_seconds": LEASE,
    "start_timeout": LEASE,
    "max_requeues": 100,
    "max_retries": 2,
    "retry_base": 0.2,
    "on_failure": "release",
}


def journal_of(ctx: Context, n: int) -> Journal:
    """Return where a run writes down what it does, and how much of its lease its worker knew to be left."""
    # A child process can't know.
    held = getattr(ctx._port, "_held", None)
    return Journal(
        ctx.task.id, ctx.run_id, n, ctx.task.target, lambda: None if held is None else held.expires - monotonic()
    )


def end(journal: Journal, run: int, n: int, raises: int) -> dict[str, int]:
    """Come to the end of a run: raise in the first so many, and return what its payload wants."""
    if run < raises:
        journal.mark("raise")
        raise ValueError(f"run {run} of {raises} that raise")
    journal.mark("end")
    return {"n": n}


@task(**DEFAULTS)
async def labour(ctx: Context, n: int, seconds: float = 0.0, raises: int = 0) -> dict[str, int]:
    """Take so long; raise in the first so many runs."""
    journal, until = journal_of(ctx, n), time.monotonic() + seconds
    journal.mark("begin")
    while time.monotonic() < until:
        await asyncio.sleep(STEP)
        journal.mark("beat")
    return end(journal, ctx.run_id, n, raises)


@task(**DEFAULTS)
def toil(ctx: Context, n: int, seconds: float = 0.0, raises: int = 0) -> dict[str, int]:
    """The same in a thread, or with a target in a process."""
    journal, until = journal_of(ctx, n), time.monotonic() + seconds
    journal.mark("begin")
    while time.monotonic() < until:
        time.sleep(STEP)
        ctx.raise_if_cancelled()
        journal.mark("beat")
    return end(journal, ctx.run_id, n, raises)
