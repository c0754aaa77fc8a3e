"""Tasks with steps, for the tests of steps; at a module's top level, where child processes find them."""

import asyncio
import os
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tests.waiting import until
from treadle import Context, TaskHandle, task
from treadle.wire.status import Status

AGAIN: dict[str, Any] = {"max_retries": 1, "retry_base": 0.0}
ONCE: dict[str, Any] = {"max_retries": 0}


def note(effects: Path, word: str) -> None:
    with effects.open("a") as file:
        file.write(f"{word}\n")


def charge(effects: Path, amount: int) -> str:
    note(effects, "charge")
    return f"charged {amount}"


async def charge_later(effects: Path, amount: int) -> str:
    return charge(effects, amount)


def mail(effects: Path, n: int) -> list[Any]:
    note(effects, "mail")
    return ["mailed", n]


def fail_at_first(ctx: Context, effects: Path) -> None:
    if ctx.run_id == 0:
        note(effects, "fail")
        raise ValueError("the first run fails")


@task(isolation="async", **AGAIN)
async def in_loop(ctx: Context, effects: Path) -> list[Any]:
    found: list[Any] = [await ctx.step("charge", charge_later, effects, 7), await ctx.step("mail", mail, effects, 1)]
    fail_at_first(ctx, effects)
    return [*found, await ctx.step("mail", mail, effects, 2)]


def _blocking(ctx: Context, effects: Path) -> list[Any]:
    found = [ctx.step("charge", charge, effects, 7), ctx.step("mail", mail, effects, 1)]
    fail_at_first(ctx, effects)
    return [*found, ctx.step("mail", mail, effects, 2)]


@task(isolation="thread", **AGAIN)
def in_thread(ctx: Context, effects: Path) -> list[Any]:
    return _blocking(ctx, effects)


@task(isolation="process", **AGAIN)
def in_process(ctx: Context, effects: Path) -> list[Any]:
    return _blocking(ctx, effects)


@task(isolation="process", **AGAIN)
async def async_in_process(ctx: Context, effects: Path) -> list[Any]:
    found: list[Any] = [await ctx.step("charge", charge_later, effects, 7), await ctx.step("mail", mail, effects, 1)]
    fail_at_first(ctx, effects)
    return [*found, await ctx.step("mail", mail, effects, 2)]


@task
async def waits_in_loop(ctx: Context) -> Any:
    await ctx.sleep(0.05)
    return await ctx.receive("approved", timeout=60)


@task(isolation="thread")
def waits_in_thread(ctx: Context) -> Any:
    ctx.sleep(0.05)
    return ctx.receive("approved", timeout=60)


@task(isolation="process")
def waits_in_process(ctx: Context) -> Any:
    ctx.sleep(0.05)
    return ctx.receive("approved", timeout=60)


@task(isolation="process")
async def waits_async_in_process(ctx: Context) -> Any:
    await ctx.sleep(0.05)
    return await ctx.receive("approved", timeout=60)


WAITING = {
    "in_loop": waits_in_loop,
    "in_thread": waits_in_thread,
    "in_process": waits_in_process,
    "async_in_process": waits_async_in_process,
}


async def asleep(handle: TaskHandle[Any], step: str) -> None:
    """Wait until the task waits by the step."""

    async def is_asleep() -> bool:
        item = await handle.get()
        found = await handle.steps()
        return item.status is Status.SCHEDULED and bool(found) and found[-1].step == step

    await until(is_asleep)


@task
async def plain() -> str:
    return "plain"


@task
async def gathers(ctx: Context, n: int) -> list[Any]:
    return [await ctx.receive("page") for _ in range(n)]


@task
async def waits_briefly(ctx: Context) -> str:
    try:
        return str(await ctx.receive("approved", timeout=0.05))
    except TimeoutError as error:
        return f"nobody: {error}"


@task(**AGAIN)
async def changes(ctx: Context, how: str) -> str:
    effects = Path("/dev/null")
    if ctx.run_id == 0:
        await ctx.step("charge", charge, effects, 7)
        raise ValueError("again")
    match how:
        case "other function":
            await ctx.step("charge", mail, effects, 7)
        case "another step":
            await ctx.step("pay", charge, effects, 7)
        case "caught":
            try:
                await ctx.step("charge", mail, effects, 7)
            except RuntimeError:
                return "caught"
        case _:
            return "no step"
    return "done"


@task(**ONCE)
async def begins(ctx: Context) -> None:
    await ctx.step("charge", charge, Path("/dev/null"), 7)
    raise InterruptedError("x")


@task(**AGAIN)
async def asks_wrongly(ctx: Context) -> None:
    await ctx.sleep(-1)


@task(isolation="process", **AGAIN)
def asks_wrongly_in_process(ctx: Context) -> None:
    ctx.sleep(-1)


async def _forget(ctx: Context, *, is_begun: bool) -> None:
    await ctx.step("add", add, 0, 1)
    work = ctx.step("add", add, 1, 1)
    if is_begun:
        asyncio.create_task(work)  # noqa: RUF006 - nobody awaits it


@task(**ONCE)
async def forgets(ctx: Context, *, is_begun: bool) -> None:
    await _forget(ctx, is_begun=is_begun)


@task(isolation="process", **ONCE)
async def forgets_in_process(ctx: Context, *, is_begun: bool) -> None:
    await _forget(ctx, is_begun=is_begun)


@task
async def swallows(ctx: Context) -> str:
    try:
        await ctx.sleep(60)
    except BaseException:  # noqa: BLE001 - what nobody should do
        return "caught"
    return "slept"


def add(a: int, b: int) -> int:
    return a + b


@task
async def sleeps_in_a_group(ctx: Context) -> list[int]:
    first = await ctx.step("add", add, 0, 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.sleep(0.01))
    return [first, await ctx.step("add", add, 1, 1)]


def _flaky(effects: Path) -> int:
    note(effects, "try")
    tries = len(effects.read_text().split())
    if tries < 3:
        raise ValueError(f"try {tries}")
    return tries


@task(**ONCE)
async def flaky_step(ctx: Context, effects: Path, retries: int) -> int:
    return int(await ctx.step("flaky", _flaky, effects, retries=retries))


@task(isolation="thread", **ONCE)
def flaky_step_in_thread(ctx: Context, effects: Path, retries: int) -> int:
    return int(ctx.step("flaky", _flaky, effects, retries=retries))


async def _for_ever() -> None:
    await asyncio.Event().wait()


over = threading.Event()
"""Lets calls end that outlast their steps in the test's own process; where it is another one, they end with it."""


def _outlast() -> None:
    over.wait(60)


@task(**ONCE)
async def slow_async(ctx: Context) -> None:
    await ctx.step("slow", _for_ever, timeout=0.05)


@task(**ONCE)
async def slow_aside(ctx: Context) -> None:
    await ctx.step("slow", _outlast, timeout=0.05)


@task(isolation="thread", **ONCE)
def slow_thread(ctx: Context) -> None:
    ctx.step("slow", _outlast, timeout=timedelta(seconds=0.05))


@task(isolation="process", **ONCE)
def slow_process(ctx: Context) -> None:
    ctx.step("slow", _outlast, timeout=0.05)


SLOW = [slow_async, slow_aside, slow_thread, slow_process]


def _bad(how: str) -> Any:
    return {"nul": "a\0b", "large": "x" * 1_000_001, "object": object()}[how]


@task
async def bad_results(ctx: Context, how: str) -> None:
    await ctx.step("bad", _bad, how)


class Order(BaseModel):
    number: int


async def _order() -> Order:
    return Order(number=7)


def _span() -> timedelta:
    return timedelta(seconds=5)


def _pair() -> tuple[int, str]:
    return 1, "a"


@task(**AGAIN)
async def typed(ctx: Context) -> list[Any]:
    order = await ctx.step("order", _order)
    span = await ctx.step("span", _span)
    pair = await ctx.step("pair", _pair)
    if ctx.run_id == 0:
        assert isinstance(order, Order)
        raise ValueError("again")
    return [
        [type(order).__name__, order.number],
        [type(span).__name__, span.total_seconds()],
        [type(pair).__name__, len(pair)],
    ]


def _same(n: int) -> int:
    return n


@task
async def counts(ctx: Context, n: int) -> int:
    total = sum(await asyncio.gather(*(ctx.step("number", _same, i) for i in range(n))))
    if ctx.run_id == 0:
        raise ValueError("again")
    return int(total)


@task
async def three(ctx: Context, effects: Path) -> None:
    for name in "abc":
        await ctx.step(name, note, effects, name)


@task(isolation="process", **ONCE)
def outlasted(ctx: Context) -> int:
    with suppress(TimeoutError):
        ctx.step("long", time.sleep, 60, timeout=0.1)
    return os.getpid()
