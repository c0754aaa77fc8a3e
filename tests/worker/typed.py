"""What type checkers know of the SDK: what they infer, and in each line with an `ignore` what they refuse.

Checked by mypy and by pyright, never run. An ignore that nothing needs is an error too.
"""

from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, TypeVar, assert_type

from treadle import (
    CallNext,
    Client,
    Context,
    Flow,
    Middleware,
    Options,
    SyncClient,
    SyncHandle,
    TaskHandle,
    Worker,
    chain,
    group,
    task,
)
from treadle.client.bound import Bound
from treadle.tasks.chains import Chain
from treadle.wire.pages import Page
from treadle.wire.status import Status
from treadle.wire.tasks import TaskItem

P = ParamSpec("P")
R = TypeVar("R")

NOW = Options(delay=0)


def timed(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Wrap an async function, as decorators are written that tell no more of what they return."""
    return function


@task
async def measure(ctx: Context, n: int, label: str = "") -> float:
    return 1.0


@task(max_retries=3)
def name(n: int) -> str:
    return ""


@task("other", category="analysis")
def wide(path: str, bins: int = 100, *, scale: float = 1.0) -> list[int]:
    return []


@task
async def nothing() -> None: ...


@task
def anything(value: Any, times: int = 1) -> str:
    return ""


@task(timeout=3)
async def some_object(value: object) -> str:
    return ""


async def arguments_that_may_be_anything() -> None:
    anything.bind(5)
    await anything.submit(value=5, times=2, options=NOW)
    assert_type(await some_object.submit(5), TaskHandle[str])


async def arguments() -> None:
    assert_type(await measure.submit(1, label="x"), TaskHandle[float])
    assert_type(await (await measure.submit(1)).result(), float)
    assert_type(name.bind(1), Bound[str])
    assert_type(name.submit_sync(1), SyncHandle[str])
    assert_type(name.submit_sync(1).result(), str)
    assert_type(await nothing.submit(), TaskHandle[None])
    await measure.submit("x")  # type: ignore[call-overload]
    await name.submit(n=1, m=2)  # type: ignore[call-overload]
    name.bind("x")  # type: ignore[call-overload]
    name.submit_sync()  # type: ignore[call-overload]
    name.with_options(NOW).bind("x")  # type: ignore[arg-type]


async def arguments_beside_options() -> None:
    assert_type(await name.submit(1, options=NOW), TaskHandle[str])
    assert_type(await name.submit(n=1, options=NOW), TaskHandle[str])
    assert_type(await measure.submit(1, label="x", options=NOW), TaskHandle[float])
    assert_type(await measure.submit(1, "x", options=NOW), TaskHandle[float])
    assert_type(wide.bind("a", 3, scale=2.0, options=NOW), Bound[list[int]])
    assert_type(wide.submit_sync("a", options=NOW), SyncHandle[list[int]])
    assert_type(await nothing.submit(options=NOW), TaskHandle[None])
    await name.submit("x", options=NOW)  # type: ignore[call-overload]
    await name.submit(n="x", options=NOW)  # type: ignore[call-overload]
    await name.submit(options=NOW)  # type: ignore[call-overload]
    await name.submit(1, 2, options=NOW)  # type: ignore[call-overload]
    await name.submit(1, m=2, options=NOW)  # type: ignore[call-overload]
    await name.submit(1, options=3)  # type: ignore[call-overload]
    await measure.submit(1, 2, options=NOW)  # type: ignore[call-overload]
    wide.bind("a", "b", options=NOW)  # type: ignore[call-overload]
    wide.bind("a", scale="b", options=NOW)  # type: ignore[call-overload]
    wide.submit_sync("a", 3, 2.0, options=NOW)  # type: ignore[call-overload]
    await nothing.submit(1, options=NOW)  # type: ignore[call-overload]


@task
@timed
async def wrapped(n: int) -> str:
    return ""


@task(timeout=5)
@timed
async def wrapped_with_context(ctx: Context, n: int) -> str:
    return ""


async def decorated(ctx: Context) -> None:
    """A task of a wrapped async function has the result of that one, too."""
    assert_type(await (await wrapped.submit(1)).result(), str)
    assert_type(wrapped_with_context.submit_sync(1).result(), str)
    assert_type(wrapped(1), Awaitable[str])
    assert_type(await wrapped_with_context(ctx, 1), str)
    wrapped_with_context.bind("x")  # type: ignore[call-overload]


async def calls(ctx: Context) -> None:
    """Calling a task calls its function."""
    assert_type(name(1), str)
    assert_type(wide("a", scale=2.0), list[int])
    coroutine = assert_type(measure(ctx, 1), Coroutine[Any, Any, float])
    coroutine.close()
    assert_type(await measure(ctx, n=1, label="x"), float)
    name("x")  # type: ignore[arg-type]
    await measure(1)  # type: ignore[call-arg, arg-type]


async def charge(order: str, retries: int = 0) -> str:
    return order


def count(order: str) -> int:
    return 0


@task
def half(n: int) -> int:
    return n // 2


async def steps(ctx: Context) -> None:
    assert_type(await ctx.step("charge", charge, "A-17"), str)
    assert_type(await ctx.step("charge", charge, "A-17", 3), str)
    async with TaskGroup() as together:
        assert_type(await together.create_task(ctx.step("charge", charge, "A-17")), str)
    number: int = await ctx.step("count", count, "A-17")
    await ctx.step("charge", charge, number)  # type: ignore[arg-type]
    await ctx.step("count", count, number)  # type: ignore[arg-type]


async def lists(client: Client) -> None:
    assert_type(await client.list(status="failed"), Page[TaskItem])
    assert_type(await client.list(status=["failed", Status.CANCELLED]), Page[TaskItem])
    async for item in client.list():
        assert_type(item, TaskItem)
    for item in await client.list():
        assert_type(item, TaskItem)
    client.list(statuses="failed")  # type: ignore[call-arg]
    client.list(status="faild")  # type: ignore[arg-type]
    client.list(status=["faild"])  # type: ignore[list-item]


def block() -> None:
    with SyncClient("http://a", room="lab", patience=3) as client:
        assert_type(client, SyncClient)
        assert_type(client.submit(name.bind(1)), SyncHandle[str])
        assert_type(client.submit(name.bind(1)).result(), str)
        assert_type(client.get("id"), TaskItem)
        assert_type(SyncClient.get(client, "id"), TaskItem)
        assert_type(client.submit(name.bind(1)).cancel(), TaskItem)
        assert_type(client.list().total, int)
        for item in client.list(status="failed"):
            assert_type(item, TaskItem)
        client.cancel(3)  # type: ignore[arg-type]
        assert_type(client.edit("id", timeout=None, priority=3), TaskItem)
        assert_type(client.submit(name.bind(1)).edit(pool="gpu"), TaskItem)
        client.edit("id", priority="high")  # type: ignore[arg-type]
        client.edit("id", priorty=3)  # type: ignore[call-arg]
    SyncClient(patiense=3)  # type: ignore[call-arg]
    SyncClient(room=3)  # type: ignore[arg-type]


async def around(ctx: Context, call_next: CallNext) -> Any:
    assert_type(ctx.run_id, int)
    return await call_next()


def not_async(ctx: Context, call_next: CallNext) -> int:
    return 1


def middleware() -> None:
    listed: list[Middleware] = [around]
    Worker([name], middleware=listed)
    Worker([name], middleware=[not_async])  # type: ignore[list-item]


@task(retry_on=(OSError, ValueError), fail_on=KeyError)
def classes(n: int) -> str:
    return ""


assert_type(classes.bind(1), Bound[str])
# They raise: a partial object and a class are no functions.
assert_type(task(partial(wide, "a")), None)
assert_type(task(max_retries=3)(partial(wide, "a")), None)
assert_type(task(Options), None)
task(retry_on=ValueError("x"))  # type: ignore[call-overload]
task(fail_on="ValueError")  # type: ignore[call-overload]


@task
def total(parts: list[str], more: int = 0) -> int:
    return 0


async def flows() -> None:
    flow = Flow("report")
    names = [flow.add(name, n=n) for n in range(3)]
    summed = flow.add(total, parts=names)
    assert_type(await flow.result(summed), int)
    assert_type(flow.handle(flow.add(measure.with_options(NOW), n=summed, label=names[0])), TaskHandle[float])
    assert_type(flow.add(name.bind(1)), str)
    assert_type(await flow.result(flow.add(nothing)), None)
    flow.add(total, parts=summed)  # type: ignore[call-overload]
    flow.add(total)  # type: ignore[call-overload]


async def chains_and_groups() -> None:
    both = group(name.bind(1), name.bind(2))
    assert_type(await both.submit(), list[TaskHandle[str]])
    line = chain(both, total.with_options(NOW), name)
    assert_type(await line.submit(), TaskHandle[str])
    assert_type(line.submit_sync(), SyncHandle[str])
    assert_type(Flow().add(both), list[str])
    assert_type(Flow().add(line), str)
    assert_type(await chain(total.bind([]), name.with_options(NOW)).submit(), TaskHandle[str])
    assert_type(await chain(chain(total.bind([]), name), some_object).submit(), TaskHandle[str])
    halves = (half, half.with_options(NOW), half)
    assert_type(chain(half.bind(1), half, *halves, half, name), Chain[Any])
    chain(half.bind(1), half, half, half, half, total)  # type: ignore[misc]
    chain(name.bind(1), name)  # type: ignore[misc]
    chain(both, name)  # type: ignore[misc]
