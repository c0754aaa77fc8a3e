"""Work on many items in portions, with turns for other requests in between."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TypeVar

BREATH_SECONDS = 0.02
"""How long to work before other requests have a turn."""

PORTION = 100
"""How many items are worked on at once, if that is faster than one by one."""

T = TypeVar("T")
R = TypeVar("R")


def portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return the items in portions."""
    return (items[first : first + PORTION] for first in range(0, len(items), PORTION))


async def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results of the function for each item."""
    made: list[R] = []
    breath = monotonic() + BREATH_SECONDS
    for item in items:
        made.append(function(item))
        if monotonic() > breath:
            await asyncio.sleep(0)
            breath = monotonic() + BREATH_SECONDS
    return made
