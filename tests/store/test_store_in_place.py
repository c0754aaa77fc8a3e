"""What is read in place: the same as beside, and on SQLite without a turn of the loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.engine.conftest import Shop
from treadle_server.domain.steps import Step
from treadle_server.engine.commands import StepReport
from treadle_server.errors import StoreUnavailable
from treadle_server.store.read.steps import of_task, of_tasks

pytestmark = pytest.mark.anyio

BOUNDS = {"most_each": 1000, "most_in_all": 10_000}


async def with_steps(shop: Shop, *results: str) -> list[int]:
    """Have a task keep a step for each of the results; return the tasks' numbers."""
    worker = await shop.worker()
    await shop.submit(len(results))
    claimed = await shop.claim(worker, len(results))
    for task, result in zip(claimed, results, strict=True):
        await shop.report(task, "started")
        await shop.report(task, "step", step=StepReport(name="page", function="read", seconds=0.5), result=result)
    return [task.seq for task in claimed]


async def in_place(shop: Shop, seqs: list[int]) -> dict[int, list[Step]]:
    async with shop.engine.store.read_in_place() as connection:
        return await of_tasks(connection, seqs, **BOUNDS)


def turns_of(work: Coroutine[Any, Any, Any]) -> Any:
    """Return what it came to at its first turn; raise `AssertionError` when it wanted another one."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


async def test_f4_steps_are_read_in_place_as_they_are_beside(shop: Shop) -> None:
    seqs = await with_steps(shop, "1", '"ü"')

    async with shop.engine.store.read() as connection:
        beside = {seq: await of_task(connection, seq, first=0, most=10) for seq in seqs}

    assert await in_place(shop, seqs) == beside
    assert [step.result for seq in seqs for step in beside[seq]] == ["1", '"ü"']
    if shop.engine.store.dialect == "sqlite":
        # Each turn waits for whatever else the loop is at: of many that wake at once that is the next batch.
        assert turns_of(in_place(shop, seqs)) == beside


async def test_f4_steps_whose_results_are_too_long_for_one_task_or_in_all_are_left_out(shop: Shop) -> None:
    long, short, none = await with_steps(shop, f'"{"ü" * 30}"', "12345", "null")
    found: dict[tuple[int, int], set[int]] = {}
    async with shop.engine.store.read_in_place() as connection:
        for bounds in ((31, 100), (32, 100), (32, 40), (5, 8), (32, 3)):
            kept = await of_tasks(connection, [long, short, none], most_each=bounds[0], most_in_all=bounds[1])
            found[bounds] = set(kept)

    # Of results that are too long in all, the longest are left out.
    assert found == {
        (31, 100): {short, none},
        (32, 100): {long, short, none},
        (32, 40): {short, none},
        (5, 8): {none},
        (32, 3): set(),
    }


async def test_f4_in_place_is_read_what_is_committed_while_another_transaction_is_open(shop: Shop) -> None:
    seqs = await with_steps(shop, "1")

    async with shop.engine.store.write() as tx:
        await tx.connection.exec_driver_sql("DELETE FROM task_steps")
        meanwhile = await in_place(shop, seqs)
    later = await in_place(shop, seqs)

    assert (list(meanwhile), list(later)) == (seqs, [])


async def test_who_reads_in_place_where_the_database_is_gone_is_told_n5(shop: Shop) -> None:
    store = shop.engine.store

    async def lost() -> None:
        async with store.read_in_place() as connection:
            await connection.exec_driver_sql("SELECT 1")
            raise ConnectionResetError("gone")

    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(lost(), 30)
