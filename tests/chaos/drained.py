"""Tasks of workers that are told to stop while they run."""

import asyncio
import os
import time
from pathlib import Path

from treadle import Context, task


def mark(name: str) -> None:
    """Leave a file: something has happened."""
    (Path(os.environ["TREADLE_TEST_MARKS"]) / name).touch()


def is_marked(name: str) -> bool:
    """Whether something has happened."""
    return (Path(os.environ["TREADLE_TEST_MARKS"]) / name).exists()


@task
async def ends_in_time() -> str:
    mark("in-time")
    while not is_marked("go"):
        await asyncio.sleep(0.01)
    return "done"


@task
async def would_go_on() -> None:
    mark("coroutine")
    try:
        await asyncio.Event().wait()
    finally:
        mark("cleaned-up")


@task
def sees_it(ctx: Context) -> None:
    mark("thread")
    ctx.wait_cancelled()
    ctx.save("so far")
    ctx.raise_if_cancelled()


@task
def ignores_it() -> None:
    mark("stubborn")
    time.sleep(600)


@task(isolation="process")
def in_a_process() -> None:
    mark("process")
    time.sleep(600)


@task
async def waits_its_turn() -> str:
    return "later"


@task(max_requeues=0, max_retries=0)
async def outlasts(ctx: Context, n: int) -> str:
    mark(f"runs-{n}")
    while not is_marked("go"):
        await asyncio.sleep(0.01)
    with (Path(os.environ["TREADLE_TEST_MARKS"]) / f"ends-{n}").open("a") as file:
        file.write(f"{ctx.run_id}\n")
    return f"run {ctx.run_id}"
