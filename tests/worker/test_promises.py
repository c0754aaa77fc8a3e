"""What the SDK promises of a run, on the socket and over plain HTTP: stopping, late results, budgets, blocked loops."""

import asyncio
import logging
import threading
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.worker import jobs
from treadle import Client, Context, Options, Pause, TaskCancelled, TaskFailed, task
from treadle.client.handle import TaskHandle

pytestmark = pytest.mark.anyio


async def _until_status(handle: TaskHandle[Any], until: Any, *wanted: str) -> None:
    async def is_there() -> bool:
        return await handle.status() in wanted

    await until(is_there)


@asynccontextmanager
async def working_in_thread(either: Any, *tasks: Any) -> Any:
    """Run a worker in a loop and thread of its own, for code that blocks its loop."""
    ended = threading.Event()

    async def work() -> None:
        async with either(*tasks):
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        await asyncio.to_thread(thread.join)


@pytest.mark.parametrize("target", [None, "robot"])
async def test_a_blocked_event_loop_keeps_its_leases_and_the_task_that_blocks_is_named_l1_e4(
    client: Client, either: Any, target: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread beats over a connection of its own; with a target it also tells the watchdog that the lease goes on."""

    @task(lease_seconds=5, max_requeues=0, max_retries=0)
    async def blocking() -> str:
        time.sleep(8)  # noqa: ASYNC251 - a loop that is blocked past its lease is what is tested
        return "kept it"

    options = Options() if target is None else Options(target=target)
    with caplog.at_level(logging.WARNING, "treadle.worker"):
        async with working_in_thread(either, blocking):
            handle = await client.submit(blocking.bind(), options=options)
            assert await handle.result(timeout=30) == "kept it"

    assert len(await handle.runs()) == 1
    warnings = [record.getMessage() for record in caplog.records if "has blocked the event loop" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"task {handle.id} of @global:tasks:blocking has blocked the event loop for ")
    assert f"{__file__}:" in warnings[0]


@pytest.mark.inside
async def test_a_heartbeat_that_lost_its_lease_stops_the_work_l1_c4(
    client: Client, either: Any, until: Any, server: Any
) -> None:
    """C4: the worker stops, and what it would have reported changes nothing."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    @task(lease_seconds=1, max_requeues=0)
    async def loses(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with either(loses):
        handle = await loses.submit()
        await begun.wait()
        await _until_status(handle, until, "running")
        await _take_away(server, handle.id)

        async with asyncio.timeout(20):
            await stopped.wait()
        with pytest.raises(TaskFailed, match="Worker disconnected"):
            await handle.result(timeout=30)
        assert [(run.status, run.reason) for run in await handle.runs()] == [("exception", "claim-expired")]


@pytest.mark.parametrize("how", ["cancel", "pause"])
async def test_a_cancelled_and_a_paused_coroutine_cleans_up_and_what_that_raises_is_logged_l4(
    client: Client, either: Any, until: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    @task
    async def untidy(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
            assert ctx.cancelled
            raise RuntimeError("the lid does not close")

    async with either(untidy):
        handle = await untidy.submit()
        await begun.wait()
        await _until_status(handle, until, "running")
        await getattr(handle, how)()
        await cleaned.wait()
        await _until_status(handle, until, "cancelled", "paused")
        item = await handle.get()

    assert item.status == {"cancel": "cancelled", "pause": "paused"}[how]
    assert "the lid does not close" in caplog.text
    if how == "pause":
        assert "interrupted by user" in str(item.error)
        assert "the lid does not close" in str(item.error)


@pytest.mark.parametrize("how", ["cancel", "pause"])
async def test_the_late_result_of_a_thread_is_dropped_after_a_cancel_and_wins_over_a_pause_t5(
    client: Client, either: Any, until: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A completion that comes before the pause was confirmed wins; one of a cancelled task changes nothing."""
    told, release = threading.Event(), threading.Event()

    @task
    def stubborn(ctx: Context) -> str:
        if ctx.wait_cancelled(20):
            told.set()
        release.wait(20)
        return "late"

    @task
    async def next_one() -> int:
        return 1

    caplog.set_level(logging.INFO, "treadle.worker")
    async with either(stubborn, next_one, concurrency=1):
        handle = await stubborn.submit()
        await _until_status(handle, until, "running")
        await getattr(handle, how)()
        assert await asyncio.to_thread(told.wait, 20)
        queued = await next_one.submit()
        assert await queued.status() == "pending"
        release.set()
        assert await queued.result(timeout=20) == 1
        item = await handle.get()

    if how == "pause":
        assert (item.status, item.result, item.cancel_requested) == ("completed", "late", False)
    else:
        assert (item.status, item.result) == ("cancelled", None)
        assert f"dropped the late result of task {handle.id}" in caplog.text


async def test_a_run_past_its_budget_is_stopped_though_a_pause_was_asked_for_l4(
    client: Client, either: Any, until: Any
) -> None:
    begun, may_spend = threading.Event(), threading.Event()

    @task
    def spends(ctx: Context) -> None:
        ctx.spend(4)
        begun.set()
        may_spend.wait(20)
        ctx.spend(7)
        ctx.wait_cancelled(20)
        ctx.raise_if_cancelled()

    async with either(spends):
        handle = await spends.submit(options=Options(budget=10))
        assert await asyncio.to_thread(begun.wait, 20)
        await _until_status(handle, until, "running")
        await handle.pause()
        may_spend.set()
        with pytest.raises(TaskFailed) as failure:
            await handle.result(timeout=20)

    item = failure.value.task
    assert (item.reason, item.usage, item.cancel_requested) == ("budget-exceeded", 11, False)


async def test_a_process_that_is_killed_takes_its_own_children_with_it_t5(
    client: Client, either: Any, until: Any, tmp_path: Any
) -> None:
    """The child's whole group is killed."""
    pids = tmp_path / "pids"

    async with either(jobs.begets):
        handle = await jobs.begets.submit(pids)

        async def has_begun() -> bool:
            return pids.exists() and len(pids.read_text().split()) == 2

        await until(has_begun)
        child, grandchild = map(int, pids.read_text().split())
        assert jobs.lives(child)
        assert jobs.lives(grandchild)
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=30)

        async def are_dead() -> bool:
            return not jobs.lives(child) and not jobs.lives(grandchild)

        await until(are_dead)


async def test_a_pause_keeps_the_checkpoint_of_a_process_that_stops_by_itself_l4_e3(
    client: Client, either: Any, until: Any
) -> None:
    async with either(jobs.patient):
        handle = await jobs.patient.submit()

        async def has_saved() -> bool:
            return (await handle.get()).checkpoint == {"at": 1}

        await until(has_saved)
        await handle.pause()
        await _until_status(handle, until, "paused")
        item = await handle.get()
        assert (item.checkpoint, item.error) == ({"at": 1}, "interrupted by user")
        await handle.resume()
        assert await handle.result(timeout=20) == "went on from {'at': 1}"


async def test_a_task_pauses_itself_with_a_checkpoint_and_its_usage_c6(client: Client, either: Any, until: Any) -> None:
    @task
    async def careful(ctx: Context) -> Any:
        if ctx.checkpoint is None:
            ctx.spend(2)
            raise Pause("someone must look", checkpoint=[1, 2])
        return ctx.checkpoint

    async with either(careful):
        handle = await careful.submit()
        await _until_status(handle, until, "paused")
        item = await handle.get()
        assert (item.checkpoint, item.usage, item.error) == ([1, 2], 2, "someone must look")
        await handle.resume()
        assert await handle.result(timeout=20) == [1, 2]


async def _take_away(server: Any, task_id: str) -> None:
    """End the run as the sweeper would when its lease is over."""
    from dataclasses import dataclass

    from treadle.wire.status import Reason
    from treadle_server.engine.commands.workers import DISCONNECTED, lose_run

    @dataclass
    class Lose:
        rows = 1

        def reads(self, reads: Any) -> None:
            reads.tasks.add(task_id)

        def apply(self, world: Any) -> None:
            lose_run(world, world.tasks[task_id], Reason.CLAIM_EXPIRED, DISCONNECTED)

    await server.engine.run(Lose())
