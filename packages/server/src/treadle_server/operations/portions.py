"""Work on many items in portions, between which others have their turn."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TypeVar

BREATH_SECONDS = 0.02
"""How long is worked before others have their turn."""

PORTION = 100
"""Items that are worked on at once where that takes less than one by one."""

T = TypeVar("T")
R = TypeVar("R")


def portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Give the items in portions."""
    return (items[first : first + PORTION] for first in range(0, len(items), PORTION))


async def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return what the function makes of each of the items."""
    made: list[R] = []
    breath = monotonic() + BREATH_SECONDS
    for item in items:
        made.append(function(item))
        if monotonic() > breath:
            await asyncio.sleep(0)
            breath = monotonic() + BREATH_SECONDS
    return made
