"""Tasks of the room `@internal`, and the registry that a server in a process of its own has them from."""

import asyncio
from pathlib import Path

from treadle import Context, Intermittent, task
from treadle.internal import InternalRegistry


@task(room="@internal", max_retries=0, max_requeues=0)
def add(a: int, b: int = 1) -> int:
    return a + b


@task(room="@internal", max_retries=0)
def gated(ctx: Context, gate: str) -> str:
    """Says which run it is, and ends when the gate is there."""
    Path(f"{gate}.{ctx.run_id}").touch()
    while not Path(gate).exists():
        ctx.raise_if_cancelled()
        ctx.wait_cancelled(0.01)
    return f"run {ctx.run_id}"


@task(room="@internal", max_retries=0)
async def counts(ctx: Context, to: int = 1_000_000) -> int:
    """Shows everything that a context can, and goes on from its checkpoint."""
    for n in range(ctx.checkpoint or 0, to):
        ctx.log(f"at {n}")
        ctx.progress(n / to, f"{n} of {to}")
        await ctx.save(n + 1)
        await asyncio.sleep(0.01)
    return ctx.checkpoint or 0


@task(room="@internal", max_retries=0, budget=2)
async def spends(ctx: Context, amount: float) -> None:
    ctx.spend(amount)
    await asyncio.Event().wait()


@task(room="@internal", max_retries=2, retry_base=0)
def fails_before(ctx: Context, run: int) -> str:
    """Fails in every run before that one."""
    if ctx.run_id < run:
        raise ValueError(f"run {ctx.run_id} is too early")
    return f"run {ctx.run_id}"


@task(room="@internal", timeout=0.2, max_retries=0, isolation="process")
def never_ends() -> None:
    while True:
        pass


@task(room="@internal", max_requeues=1)
def stumbles(ctx: Context) -> int:
    if ctx.run_id == 0:
        raise Intermittent("try again")
    return ctx.run_id


registry = InternalRegistry([add, gated])
