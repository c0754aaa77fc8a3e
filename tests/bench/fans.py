"""Tasks of the flow that `tests.bench.flows` measures, for the worker processes: a fan."""

from treadle import task


@task
async def first() -> int:
    return 1


@task
async def beside(n: int, seed: int) -> int:
    return n + seed


@task
async def last(parts: list[int]) -> int:
    return sum(parts)
