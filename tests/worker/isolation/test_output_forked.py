"""What the code of a task does in processes that it forks, such as those of a `multiprocessing.Pool`."""

import logging
import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

from treadle import Client, Context, task
from treadle.errors import InvalidArguments

pytestmark = pytest.mark.anyio

WIDE = 90_000
"""Characters of a line that the system doesn't write to a socket in one piece."""

fork: Any = multiprocessing.get_context("fork")


def speaks(letter: str) -> str:
    for _ in range(40):
        print(letter * WIDE)
    logging.getLogger("someone.elses").warning("warned")
    return letter


def in_a_pool() -> str:
    with fork.Pool(3) as pool:
        answers = pool.map_async(speaks, "abc", chunksize=1)
        speaks("d")
        return "".join(answers.get(60))


def uses(ctx: Context, answers: Any) -> None:
    told = []
    for use in (lambda: ctx.save(1), lambda: ctx.log("a line"), lambda: ctx.progress(0.5), ctx.credentials):
        try:
            use()
        except InvalidArguments as error:
            told.append(str(error))
    answers.put(told)


def from_a_copy(ctx: Context) -> list[str]:
    answers = fork.SimpleQueue()
    copy = fork.Process(target=uses, args=(ctx, answers))
    copy.start()
    told: list[str] = answers.get()
    copy.join()
    return told


@task(max_retries=0)
async def pools() -> str:
    return in_a_pool()


@task(max_retries=0)
def pools_in_a_thread() -> str:
    return in_a_pool()


@task(max_retries=0, isolation="process")
def pools_in_a_process() -> str:
    return in_a_pool()


@task(max_retries=0)
async def copied(ctx: Context) -> list[str]:
    return from_a_copy(ctx)


@task(max_retries=0)
def copied_in_a_thread(ctx: Context) -> list[str]:
    return from_a_copy(ctx)


@task(max_retries=0, isolation="process")
def copied_in_a_process(ctx: Context) -> list[str]:
    return from_a_copy(ctx)


@pytest.mark.parametrize("function", [pools, pools_in_a_thread, pools_in_a_process], ids=lambda one: one.__name__)
async def test_what_they_print_and_log_neither_fails_the_run_nor_mixes_with_what_the_run_says(
    client: Client, working: Any, function: Callable[..., Any]
) -> None:
    """Without a loop it could not be passed on; on a socket that all of them have, lines stood within each other."""
    async with working(function):
        handle = await function.submit()  # type: ignore[attr-defined]

        assert await handle.result(timeout=90) == "abc"
    assert {line.message[0] for line in await client.logs(handle.id)} <= {"d", "w", *"0123456789"}


@pytest.mark.parametrize("function", [copied, copied_in_a_thread, copied_in_a_process], ids=lambda one: one.__name__)
async def test_their_context_says_that_it_is_only_for_the_process_that_runs_the_task(
    client: Client, working: Any, function: Callable[..., Any]
) -> None:
    """Nothing answers a copy, which waited for ever."""
    async with working(function):
        told = await (await function.submit()).result(timeout=90)  # type: ignore[attr-defined]

    assert len(told) == 4
    assert all("in a process that the task's code has forked" in one for one in told)
