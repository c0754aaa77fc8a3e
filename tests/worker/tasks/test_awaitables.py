"""What async code was given to be awaited, and returned without."""

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from treadle import CallNext, Client, Context, TaskFailed, task
from treadle.tasks.awaitables import FEW, Unawaited
from treadle.wire.status import Reason

pytestmark = pytest.mark.anyio

Working = Callable[..., Any]


async def pieces() -> AsyncIterator[bytes]:
    yield b"drawn"


ASKED: list[tuple[str, Callable[[Context], Any]]] = [
    ("ctx.save(…)", lambda ctx: ctx.save({"page": 7})),
    ("ctx.save(…)", lambda ctx: asyncio.ensure_future(ctx.save({"page": 7}))),
    ("ctx.upload(…)", lambda ctx: ctx.upload(b"drawn", name="plot.txt")),
    ("ctx.upload(…)", lambda ctx: ctx.upload(pieces(), name="plot.txt")),
    ("ctx.credentials()", lambda ctx: ctx.credentials()),
    ("step 'draw'", lambda ctx: ctx.step("draw", len, ())),
    ("step 'sleep'", lambda ctx: ctx.sleep(5)),
    ("step 'approved'", lambda ctx: ctx.receive("approved")),
]


@pytest.mark.parametrize(
    ("name", "asked"),
    ASKED,
    ids=["save", "ensure_future", "upload", "stream", "credentials", "step", "sleep", "receive"],
)
@pytest.mark.parametrize("is_around", [False, True], ids=["code", "middleware"])
async def test_what_was_never_awaited_fails_its_run_for_nothing_was_stored(
    client: Client,
    working: Working,
    caplog: pytest.LogCaptureFixture,
    name: str,
    asked: Callable[[Context], Any],
    *,
    is_around: bool,
) -> None:
    @task
    async def forgets(ctx: Context) -> None:
        if not is_around:
            asked(ctx)

    async def around(ctx: Context, call_next: CallNext) -> Any:
        if is_around:
            asked(ctx)
        return await call_next()

    async with working(forgets, middleware=[around]):
        handle = await forgets.submit()
        with pytest.raises(TaskFailed, match=rf"{re.escape(name)} was never awaited, so nothing happened"):
            await handle.result(timeout=60)
    gc.collect()  # what is left of it is told now

    item = await handle.get()
    assert (item.reason, item.retry_count, item.checkpoint) == (Reason.INTERNAL_ERROR, 0, None)
    assert await handle.artifacts() == []
    assert "asyncio" not in {record.name for record in caplog.records}


async def test_what_was_begun_or_cancelled_before_is_not_told_and_not_kept() -> None:
    async def work() -> None:
        return

    unawaited = Unawaited()
    for _ in range(10 * FEW):
        begun = work()
        unawaited.note("it", begun)
        await begun
    assert len(unawaited._given) <= FEW + 1

    cancelled = asyncio.ensure_future(unawaited_of(unawaited, work))
    cancelled.cancel()
    await asyncio.wait([cancelled])
    unawaited.check()


def unawaited_of(unawaited: Unawaited, work: Callable[[], Any]) -> Any:
    asked = work()
    unawaited.note("it", asked)
    return asked
