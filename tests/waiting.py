"""Waiting for what has no event here: what another process, thread or server does is looked for, with an end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar, cast, overload

T = TypeVar("T")

SECONDS = 90.0
"""What no machine is too busy for."""

PAUSE = 0.01
"""Seconds between two looks; 0 where the look costs nothing, and what is waited for is done in the same loop."""


@overload
async def until(
    look: Callable[[], Awaitable[T]],
    shows: Callable[[T], object] = bool,
    *,
    seconds: float = SECONDS,
    pause: float = PAUSE,
) -> T: ...
@overload
async def until(
    look: Callable[[], T], shows: Callable[[T], object] = bool, *, seconds: float = SECONDS, pause: float = PAUSE
) -> T: ...
async def until(
    look: Callable[[], T | Awaitable[T]],
    shows: Callable[[T], object] = bool,
    *,
    seconds: float = SECONDS,
    pause: float = PAUSE,
) -> T:
    """Look again and again until it `shows` what is waited for, and return that; what `look` gives may be awaited.

    Raises `TimeoutError`, with what was seen last.
    """
    seen: T | None = None
    try:
        async with asyncio.timeout(seconds):
            while not shows(seen := await _seen(look)):  # noqa: ASYNC110 - the one place that looks
                await asyncio.sleep(pause)
    except TimeoutError:
        raise TimeoutError(f"after {seconds:g} s it is still {seen!r:.2000}") from None
    return seen


async def _seen(look: Callable[[], T | Awaitable[T]]) -> T:
    found = look()
    return cast("T", await found if isawaitable(found) else found)


def look_until(
    look: Callable[[], T], shows: Callable[[T], object] = bool, *, seconds: float = SECONDS, pause: float = PAUSE
) -> T:
    """Do the same where there is no loop."""
    limit = time.monotonic() + seconds
    while not shows(seen := look()):
        if time.monotonic() > limit:
            raise TimeoutError(f"after {seconds:g} s it is still {seen!r:.2000}")
        time.sleep(pause)
    return seen


async def turns(count: int = 10) -> None:
    """Let everything else in the loop go on for some turns: as far as it comes without waiting for anything."""
    for _ in range(count):
        await asyncio.sleep(0)
