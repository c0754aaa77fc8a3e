"""Threads, which nothing stops: what their slots and late results come to."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest

from tests.worker import stepping
from tests.worker.jobs import double, where
from treadle import Client, Context, Limit, TaskFailed, WaitTimeout, task
from treadle.wire.status import Reason

pytestmark = pytest.mark.anyio


async def test_a_thread_past_its_timeout_keeps_its_slot_and_its_late_result_is_dropped(
    client: Client, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """T5."""
    release, told = threading.Event(), threading.Event()

    @task(timeout=0.2, max_retries=0)
    def stubborn(ctx: Context) -> str:
        if ctx.wait_cancelled(10):
            told.set()
        release.wait(10)
        return "too late"

    async with working(stubborn, double, concurrency=1):
        handle = await stubborn.submit()
        with pytest.raises(TaskFailed):
            await handle.result(timeout=30)
        assert await asyncio.to_thread(told.wait, 10), "the thread looks for itself, when the machine lets it"
        queued = await double.submit(1)
        with pytest.raises(WaitTimeout):
            await queued.result(timeout=0.3)

        release.set()

        assert await queued.result(timeout=30) == 2
    assert (await handle.get()).result is None
    assert "late result" in caplog.text


async def test_a_worker_whose_only_slot_a_thread_keeps_is_given_nothing_until_it_ends(
    client: Client, either: Any, until: Any
) -> None:
    """T5: nothing is claimed for it, not even to be handed back."""
    release = threading.Event()

    @task(timeout=0.1, max_retries=0, lease_seconds=1)
    def stubborn() -> None:
        release.wait(20)

    async with either(stubborn, double, concurrency=1) as worker:
        handle = await stubborn.submit()
        with pytest.raises(TaskFailed, match="timeout"):
            await handle.result(timeout=30)
        queued = await double.submit(1)
        submitted = datetime.now(UTC)

        async def has_beaten() -> bool:
            return (await client.worker(worker.id)).last_heartbeat > submitted

        await until(has_beaten)
        assert await queued.status() == "pending"
        assert (await client.worker(worker.id)).used == 1
        release.set()

        assert await queued.result(timeout=30) == 2
    assert [run.status for run in await queued.runs()] == ["completed"]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
@pytest.mark.parametrize("how", ["cancel", "pause", "timeout"])
async def test_what_waits_for_a_run_that_was_stopped_waits_for_the_call_of_its_step_too(
    client: Client, working: Any, until: Any, how: str, *, is_async: bool
) -> None:
    """G5: the call goes on in its thread, beside which nothing of the same limit may run."""
    began, release = threading.Event(), threading.Event()
    limits, name = [Limit("one", concurrency=1)], f"{how}s_{is_async}"

    def outlast() -> None:
        began.set()
        release.wait(30)

    @task(name=name, timeout=0.5 if how == "timeout" else None, max_retries=0, limits=limits)
    async def waits(ctx: Context) -> None:
        await ctx.step("outlast", outlast)

    @task(name=name, timeout=0.5 if how == "timeout" else None, max_retries=0, limits=limits)
    def goes_on(ctx: Context) -> None:
        with suppress(TimeoutError):
            ctx.step("outlast", outlast, timeout=0.1)
        ctx.wait_cancelled(30)

    @task(name=f"after_{name}", limits=limits)
    async def after() -> bool:
        return release.is_set()

    stopped = waits if is_async else goes_on
    async with working(stopped, after, concurrency=2):
        handle = await stopped.submit()
        queued = await after.submit()
        assert await asyncio.to_thread(began.wait, 30)
        if how == "timeout":
            await until(handle.status, lambda status: status == "failed", seconds=30)
        else:
            await getattr(handle, how)()

        with pytest.raises(WaitTimeout):
            await queued.result(timeout=1)
        release.set()

        assert await queued.result(timeout=30)


async def test_a_process_in_which_a_call_outlasts_its_step_ends_with_the_run(client: Client, working: Any) -> None:
    """G5: the next run of its target would begin beside the call."""
    async with working(stepping.outlasted):
        process = await (await stepping.outlasted.submit()).result(timeout=60)

        assert not psutil.pid_exists(process)


async def test_a_run_for_which_the_system_has_no_thread_is_put_back(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It failed for good, as a defect of the worker."""
    start = threading.Thread.start
    refused: list[str] = []

    def starts(thread: threading.Thread) -> None:
        if thread.name == "treadle-where" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    async with working(where):
        handle = await where.submit()

        await handle.result(timeout=30)
        first, _ = await handle.runs()
    assert (first.reason, refused) == (Reason.INTERMITTENT_TASK, ["treadle-where"])
    assert "can't start new thread): raise its limits" in (first.error or "")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (SystemExit, "SystemExit: 3"),
        (asyncio.CancelledError, "CancelledError: 3"),
        (StopIteration, "StopIteration: 3"),
        (lambda code: BaseExceptionGroup("both", [SystemExit(code)]), "BaseExceptionGroup: both (1 sub-exception)"),
    ],
    ids=["exit", "cancelled", "stop", "group"],
)
async def test_what_ends_a_thread_is_told_and_judged_as_anywhere_else(
    client: Client, working: Any, kind: Callable[[int], BaseException], said: str
) -> None:
    """N1: it was told as another exception, which none of the task's lists means."""

    @task(max_retries=3, retry_base=0, fail_on=(SystemExit, asyncio.CancelledError, StopIteration))
    def ends() -> None:
        raise kind(3)

    async with working(ends):
        ended = await (await client.submit(ends.bind())).wait(timeout=30)

    assert (ended.reason, ended.error) == (Reason.INTERNAL_ERROR, said)
    assert len(await client.runs(ended.id)) == 1
