"""Work on many items in portions, with turns for other requests in between."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
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


def filled(items: Iterable[T], most: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Return the items in portions of up to `most` in size together; a larger item is a portion by itself."""
    portion: list[T] = []
    size = 0
    for item in items:
        if portion and size + size_of(item) > most:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += size_of(item)
    if portion:
        yield portion


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
