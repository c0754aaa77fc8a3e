"""`Worker(middleware=[…])`: what is put around each run, in every isolation."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from tests.worker import jobs
from treadle import CallNext, Client, Context, MalformedPayload, TaskCancelled, TaskFailed, Worker, task
from treadle.errors import BadValue, DefinitionError
from treadle.testing.inline import InlineWorker
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

Working = Callable[..., Any]
inside: contextvars.ContextVar[str] = contextvars.ContextVar("inside", default="")


@task(max_retries=0)
async def doubles_in_the_loop(n: int) -> int:
    if n < 0:
        raise ValueError(f"{n} is too small")
    return n * 2


@task(max_retries=0)
def doubles_in_a_thread(n: int) -> int:
    if n < 0:
        raise ValueError(f"{n} is too small")
    return n * 2


ISOLATIONS = pytest.mark.parametrize(
    "function", [doubles_in_the_loop, doubles_in_a_thread, jobs.doubles], ids=["async", "thread", "process"]
)


@ISOLATIONS
async def test_each_is_around_the_next_and_sees_the_result(client: Client, working: Working, function: Any) -> None:
    said: list[str] = []

    def named(name: str) -> Any:
        async def middleware(ctx: Context, call_next: CallNext) -> Any:
            said.append(f"{name} of run {ctx.run_id} of {ctx.payload}")
            result = await call_next()
            said.append(f"{name} saw {result}")
            return result

        return middleware

    async with working(function, middleware=[named("outer"), named("inner")]):
        result = await (await function.submit(3)).result(timeout=60)

    assert result == 6
    assert said == [
        "outer of run 0 of {'n': 3}",
        "inner of run 0 of {'n': 3}",
        "inner saw 6",
        "outer saw 6",
    ]


@ISOLATIONS
async def test_what_the_code_raised_is_seen_and_is_the_runs_error_with_its_traceback(
    client: Client, working: Working, function: Any
) -> None:
    seen: list[BaseException] = []

    async def watching(ctx: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except Exception as error:
            seen.append(error)
            raise

    async with working(function, middleware=[watching]):
        handle = await function.submit(-1)
        with pytest.raises(TaskFailed, match="ValueError: -1 is too small"):
            await handle.result(timeout=60)
        [run] = await handle.runs()

    assert "-1 is too small" in str(seen)
    assert "is too small" in run.traceback
    assert "middleware.py" not in run.traceback.replace("test_middleware.py", "")


@ISOLATIONS
async def test_it_may_change_the_result_swallow_an_error_and_raise_its_own(
    client: Client, working: Working, function: Any
) -> None:
    async def strict(ctx: Context, call_next: CallNext) -> Any:
        if ctx.payload["n"] == 0:
            raise MalformedPayload("nothing to double")
        try:
            return {"result": await call_next()}
        except Exception as error:  # noqa: BLE001 - whatever it was
            return {"error": str(error)}

    async with working(function, middleware=[strict]):
        handles = [await function.submit(n) for n in (1, -1, 0)]
        results = await asyncio.gather(*(one.wait(timeout=60) for one in handles))

    assert results[0].result == {"result": 2}
    assert "-1 is too small" in results[1].result["error"]
    assert (results[2].status, results[2].reason) == ("failed", "malformed-payload")


@task(max_retries=0)
async def returns_nan() -> float:
    return float("nan")


async def test_a_result_that_can_t_be_kept_is_an_error_to_it(client: Client, working: Working) -> None:
    seen: list[str] = []

    async def watching(ctx: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except BadValue as error:
            seen.append(str(error))
            raise

    async with working(returns_nan, middleware=[watching]):
        ended = await (await returns_nan.submit()).wait(timeout=60)

    assert (ended.status, ended.reason) == ("failed", "internal-error")
    assert seen == [ended.error]


@task(max_retries=0)
async def looks() -> str:
    return inside.get()


@task(max_retries=0)
def looks_in_a_thread() -> str:
    return inside.get()


@pytest.mark.parametrize("function", [looks, looks_in_a_thread], ids=["async", "thread"])
async def test_context_variables_that_it_sets_are_seen_by_the_code(
    client: Client, working: Working, function: Any
) -> None:
    async def setting(ctx: Context, call_next: CallNext) -> Any:
        inside.set(f"run {ctx.run_id}")
        return await call_next()

    async with working(function, middleware=[setting]):
        assert await (await function.submit()).result(timeout=60) == "run 0"


@task(max_retries=0, budget=10)
async def spends(ctx: Context) -> None:
    ctx.spend(1)
    ctx.spend(2)


async def test_what_it_spends_is_added_to_what_the_code_spends(client: Client, working: Working) -> None:
    async def costly(ctx: Context, call_next: CallNext) -> Any:
        ctx.spend(0.5)
        try:
            return await call_next()
        finally:
            ctx.spend(0.25)

    async with working(spends, middleware=[costly]):
        handle = await spends.submit()
        await handle.result(timeout=60)

    assert (await handle.get()).usage == 3.75


@ISOLATIONS
async def test_one_that_waits_is_stopped_with_its_run(client: Client, working: Working, function: Any) -> None:
    waits, ended = asyncio.Event(), asyncio.Event()

    async def stubborn(ctx: Context, call_next: CallNext) -> Any:
        waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert ctx.cancelled
            ended.set()

    async with working(function, middleware=[stubborn]):
        handle = await function.submit(1)
        await waits.wait()
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=60)
        await ended.wait()


async def test_an_inline_worker_has_it_too(server: Served, client: Client) -> None:
    async def louder(ctx: Context, call_next: CallNext) -> Any:
        return await call_next() + 100

    handle = await doubles_in_the_loop.submit(4)

    def work() -> None:
        with InlineWorker([doubles_in_the_loop], url=server.url, token=server.token, middleware=[louder]) as worker:
            worker.run_all()

    await asyncio.to_thread(work)
    assert await handle.result(timeout=60) == 108


async def plain(ctx: Context, call_next: CallNext) -> Any:
    return await call_next()


async def of_one(ctx: Context) -> None:
    pass


async def yields(ctx: Context, call_next: CallNext) -> Any:
    yield await call_next()


class Timer:
    async def __call__(self, ctx: Context, call_next: CallNext) -> Any:
        return await call_next()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (plain, "a list of functions"),
        ("plain", "a list of functions"),
        ([plain, "plain"], "'plain' is not a function"),
        ([Timer], "Timer'> is not a function"),
        ([of_one], "can't be called with a context and call_next"),
        ([yields], "yields"),
    ],
    ids=["no list", "text", "a text in it", "a class", "one argument", "a generator"],
)
def test_what_can_t_be_put_around_a_run_is_refused_when_the_worker_is_made(given: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        Worker([doubles_in_the_loop], middleware=given, url="http://127.0.0.1:1")
    assert len(Worker([doubles_in_the_loop], middleware=[plain, Timer()]).config.middleware) == 2
