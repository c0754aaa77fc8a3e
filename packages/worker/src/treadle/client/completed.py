"""Iteration over tasks in the order in which they end."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from treadle.client.handle import TaskHandle, limit_of
from treadle.errors import InvalidArguments, WaitTimeout
from treadle.values import brief
from treadle.wire.amounts import counted, in_seconds

H = TypeVar("H")


def checked_handles(handles: Iterable[H], kind: type[Any]) -> list[H]:
    """Return the handles as a list. Raises `InvalidArguments` for anything that is not a `kind` of handle."""
    given = [*handles]
    for handle in given:
        if not isinstance(handle, kind):
            raise InvalidArguments(
                f"completed takes a {kind.__name__} for each task, as submit and handle(id) return, not {brief(handle)}"
            )
    return given


async def as_they_end(
    handles: Sequence[TaskHandle[Any]],
    timeout: float | timedelta | None = None,  # noqa: ASYNC109 - as TaskHandle
) -> AsyncGenerator[int]:
    """Yield the indexes of handles as their tasks end, whatever the outcome; ended ones come first, in any order.

    Raises `WaitTimeout` when some have not ended within `timeout`, in seconds or a timedelta for all together (None:
    for ever; 0: ask once); otherwise as `TaskHandle.wait` does.
    """
    limit = limit_of(timeout)
    if limit == 0:
        async for place in _ended_by_now(handles):
            yield place
        return
    loop = asyncio.get_running_loop()
    until = None if limit is None else loop.time() + limit
    ended: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
    waiting = {asyncio.ensure_future(handle.wait()): place for place, handle in enumerate(handles)}
    try:
        for task in waiting:
            task.add_done_callback(ended.put_nowait)
        for number in range(len(waiting)):
            try:
                async with asyncio.timeout_at(until):
                    task = await ended.get()
            except TimeoutError:
                raise _too_late(len(waiting) - number, len(waiting), limit) from None
            task.result()
            yield waiting[task]
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _ended_by_now(handles: Sequence[TaskHandle[Any]]) -> AsyncGenerator[int]:
    found = await asyncio.gather(*(handle.wait(0) for handle in handles), return_exceptions=True)
    late = 0
    for place, one in enumerate(found):
        if isinstance(one, WaitTimeout):
            late += 1
        elif isinstance(one, BaseException):
            raise one
        else:
            yield place
    if late:
        raise _too_late(late, len(found), 0)


def _too_late(left: int, of_all: int, limit: float | None) -> WaitTimeout:
    return WaitTimeout(
        f"{counted(left, 'task')} of {of_all:,} had not ended after {in_seconds(limit or 0)}; they go on"
    )
