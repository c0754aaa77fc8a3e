"""A worker and a client against a real server: what happens to tasks."""

import asyncio
import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from tests.worker import jobs
from treadle import (
    Client,
    Context,
    Intermittent,
    MalformedPayload,
    Options,
    Pause,
    Retry,
    TaskCancelled,
    TaskFailed,
    WaitTimeout,
    task,
)
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


class Atom(BaseModel):
    name: str
    at: datetime


@task
async def echo(atom: Atom, *, after: timedelta = timedelta(0)) -> Atom:
    return Atom(name=atom.name.upper(), at=atom.at + after)


@task
async def add(a: int, b: int = 1) -> int:
    return a + b


@task
def add_in_thread(a: int, b: int = 1) -> int:
    assert threading.current_thread() is not threading.main_thread()
    return a + b


async def test_models_and_datetimes_arrive_as_they_were_sent_and_come_back_as_annotated(
    client: Client, working: Any
) -> None:
    """T2."""
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)

    async with working(echo):
        handle = await echo.submit(Atom(name="fe", at=at), after=timedelta(hours=1))
        result = await handle.result(timeout=30)

    assert result == Atom(name="FE", at=at + timedelta(hours=1))


async def test_a_task_is_submitted_before_any_worker_lives_and_runs_when_one_comes(
    client: Client, working: Any
) -> None:
    """T3: submitting registers the job."""
    handle = await add.submit(2, b=3)
    assert (await handle.get()).queue_position == 1

    async with working(add):
        assert await handle.result(timeout=30) == 5


async def test_coroutines_threads_and_processes_run_side_by_side(client: Client, working: Any) -> None:
    """T10."""
    async with working(add, add_in_thread, jobs.pid, concurrency=4):
        handles = await client.submit_many([add.bind(1), add_in_thread.bind(2), jobs.pid.bind(), jobs.pid.bind()])
        first, second, *pids = [await handle.result(timeout=30) for handle in handles]

    assert (first, second) == (2, 3)
    assert all(isinstance(pid, int) and pid != 0 for pid in pids)


async def test_many_tasks_are_submitted_at_once_and_all_complete(client: Client, working: Any) -> None:
    """T3."""
    async with working(add, concurrency=50):
        handles = await client.submit_many([add.bind(number, 0) for number in range(300)], wait=True)
        results = await asyncio.gather(*(handle.result(timeout=30) for handle in handles))

    assert results == list(range(300))


async def test_a_result_that_is_not_there_in_time_raises_and_the_task_goes_on(client: Client) -> None:
    handle = await add.submit(1)

    with pytest.raises(WaitTimeout, match="it goes on"):
        await handle.result(timeout=0.05)

    assert await handle.status() == "pending"


async def test_a_failure_is_retried_and_each_run_keeps_its_whole_traceback(client: Client, working: Any) -> None:
    """T4."""

    @task(max_retries=1, retry_base=0)
    def broken() -> None:
        raise ZeroDivisionError("on purpose")

    async with working(broken):
        handle = await broken.submit()
        with pytest.raises(TaskFailed, match="ZeroDivisionError: on purpose") as failure:
            await handle.result(timeout=30)
        runs = await handle.runs()

    assert failure.value.task.retry_count == 1
    assert [run.status for run in runs] == ["failed", "failed"]
    for run in runs:
        assert run.traceback is not None
        assert 'raise ZeroDivisionError("on purpose")' in run.traceback
        assert "treadle/isolation/threads.py" not in run.traceback


async def test_the_default_back_off_is_five_seconds_then_twice_that(client: Client, working: Any, until: Any) -> None:
    """T4."""

    @task
    async def broken() -> None:
        raise RuntimeError

    async with working(broken):
        handle = await broken.submit()

        item = await until(handle.get, lambda seen: seen.next_retry_at is not None)
        [failed] = await handle.runs()

    assert (item.status, item.max_retries, item.max_requeues, item.retry_count) == ("scheduled", 3, 5, 1)
    assert item.next_retry_at is not None
    assert failed.ended_at is not None
    assert item.next_retry_at - failed.ended_at == timedelta(seconds=5)


async def test_the_call_goes_over_the_decorator_and_an_explicit_zero_counts(client: Client) -> None:
    """T3."""

    @task(max_retries=7, priority=2, timeout=30)
    async def ready() -> None: ...

    plain = await (await ready.submit()).get()
    called = await (await ready.submit(options=Options(max_retries=0, priority=0, delay=60, tags={"k": "v"}))).get()

    assert (plain.max_retries, plain.priority, plain.timeout, plain.status) == (7, 2, 30, "pending")
    assert (called.max_retries, called.priority, called.status, called.tags) == (0, 0, "scheduled", {"k": "v"})


async def test_a_coroutine_that_takes_too_long_fails_by_its_timeout(client: Client, working: Any) -> None:
    """T5."""

    @task(timeout=0.1, max_retries=0)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(slow):
        handle = await slow.submit()
        with pytest.raises(TaskFailed, match=r"timeout.* of 0\.1 s") as failure:
            await handle.result(timeout=30)

    assert failure.value.task.reason == "timeout"


async def test_a_payload_that_does_not_fit_and_an_unknown_function_fail_and_the_worker_goes_on(
    client: Client, working: Any, server: Served
) -> None:
    """T7, C12."""

    @task(name="typed")
    async def loose(n: Any) -> int:
        return int(n)

    @task(name="typed")
    async def strict(n: int) -> int:
        return n

    await client.register(loose)
    bad = await loose.submit("many")
    async with working(strict, add, replace_schema=True):
        with pytest.raises(TaskFailed, match="valid integer") as failure:
            await bad.result(timeout=30)
        assert await (await add.submit(1)).result(timeout=30) == 2

    assert failure.value.task.reason == "malformed-payload"
    assert failure.value.task.retry_count == 0


async def test_outcomes_by_exception(client: Client, working: Any, until: Any) -> None:
    """C6: Retry, Pause, MalformedPayload and Intermittent."""
    seen: list[str] = []

    @task(max_retries=1, max_requeues=1)
    async def ends(ctx: Context, how: str) -> str:
        seen.append(how)
        if how == "pause" and ctx.checkpoint is None:
            raise Pause("until tomorrow", checkpoint={"at": 1})
        if ctx.run_id == 0:
            if how == "retry":
                raise Retry(timedelta(0))
            if how == "malformed":
                raise MalformedPayload("no such thing")
            if how == "intermittent":
                raise Intermittent("the line was cut")
        return f"{how} {ctx.checkpoint}"

    async with working(ends):
        retried, lost, bad, paused = await client.submit_many(
            [ends.bind("retry"), ends.bind("intermittent"), ends.bind("malformed"), ends.bind("pause")]
        )
        assert await retried.result(timeout=30) == "retry None"
        assert await lost.result(timeout=30) == "intermittent None"
        with pytest.raises(TaskFailed, match="no such thing"):
            await bad.result(timeout=30)

        async def is_paused() -> bool:
            return await paused.status() == "paused"

        await until(is_paused)
        assert (await paused.get()).checkpoint == {"at": 1}
        await paused.resume()
        assert await paused.result(timeout=30) == "pause {'at': 1}"

    assert seen.count("malformed") == 1
    assert [(run.status, run.reason) for run in await lost.runs()] == [
        ("exception", "intermittent-task"),
        ("completed", None),
    ]


async def test_a_pause_stops_the_code_and_a_resume_goes_on_from_its_checkpoint(
    client: Client, working: Any, until: Any
) -> None:
    """L4."""
    waiting = asyncio.Event()

    @task
    async def careful(ctx: Context) -> str:
        if ctx.checkpoint is not None:
            return f"went on from {ctx.checkpoint}"
        await ctx.save("here")
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("cleaning up went wrong")

    async with working(careful):
        handle = await careful.submit()
        await waiting.wait()
        await handle.pause()

        async def is_paused() -> bool:
            return await handle.status() == "paused"

        await until(is_paused)
        assert "interrupted by user" in str((await handle.get()).error)
        await handle.resume()
        assert await handle.result(timeout=30) == "went on from here"


async def test_a_cancel_stops_a_coroutine_at_once(client: Client, working: Any) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @task
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(endless, concurrency=1):
        handle = await endless.submit()
        await begun.wait()
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=30)
        async with asyncio.timeout(20):
            await stopped.wait()


async def test_a_run_past_its_budget_is_stopped(client: Client, working: Any) -> None:
    """L4: budget-exceeded."""

    @task
    async def spender(ctx: Context) -> None:
        ctx.spend(11)
        await asyncio.Event().wait()

    async with working(spender):
        handle = await spender.submit(options=Options(budget=10))
        with pytest.raises(TaskFailed) as failure:
            await handle.result(timeout=30)

    assert failure.value.task.reason == "budget-exceeded"


async def test_a_drain_lets_short_runs_end_and_hands_back_the_rest(client: Client, working: Any, until: Any) -> None:
    """L10, E13: worker-shutdown."""
    begun, release = asyncio.Event(), asyncio.Event()

    @task
    async def short() -> str:
        begun.set()
        await release.wait()
        return "done"

    @task
    async def long() -> None:
        await asyncio.Event().wait()

    async with working(short, long, drain_grace=1) as worker:
        shorter, longer = await short.submit(), await long.submit()
        await begun.wait()

        async def is_running() -> bool:
            return await longer.status() == "running"

        await until(is_running)
        worker.stop()
        release.set()
        assert await shorter.result(timeout=30) == "done"

    runs = await longer.runs()
    assert [(run.status, run.reason) for run in runs] == [("exception", "worker-shutdown")]
    assert await longer.status() in {"pending", "scheduled"}
    assert (await client.workers()).items == []


async def test_tasks_share_what_the_lifespan_yields_and_submit_others(client: Client, working: Any) -> None:
    closed = []

    @asynccontextmanager
    async def lifespan() -> Any:
        yield {"factor": 3}
        closed.append(True)

    @task
    async def outer(ctx: Context, n: int) -> int:
        handle = await add.submit(n, 0)
        return await handle.result(timeout=30) * ctx.resources["factor"]

    async with working(outer, add, lifespan=lifespan):
        assert await (await outer.submit(5)).result(timeout=30) == 15

    assert closed == [True]


@task(room="@internal")
def of_the_server() -> None: ...


async def test_a_worker_says_that_it_is_given_nothing_of_the_servers(
    working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It said that it was open for the job, and stood idle."""
    async with working(add, of_the_server):
        [said] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert said.startswith("the worker gets no tasks of @internal:tasks:of_the_server: ")


async def test_a_new_version_with_one_more_optional_argument_serves_what_waits_and_what_is_new(
    client: Client, either: Any
) -> None:
    """Z5: it used to exit with a schema conflict; pending tasks keep the schema that they were checked against."""

    def version_1() -> Any:
        @task
        async def greet(name: str) -> str:
            return name

        return greet

    def version_2() -> Any:
        @task
        async def greet(name: str, mark: str = "!") -> str:
            return name + mark

        return greet

    old, new = version_1(), version_2()
    waiting = await client.submit(old.bind("Ann"))

    async with either(new):
        later = await client.submit(new.bind("Bob", mark="?"))

        assert await waiting.result(timeout=30) == "Ann!"
        assert await later.result(timeout=30) == "Bob?"
