"""Which part of a long list to load: the visible rows, and enough around them that scrolling seldom has to wait."""

from collections.abc import Callable
from typing import Any, NamedTuple

from treadle.wire.frames import Window
from treadle.wire.pages import MOST_OF_PAGE

WINDOW = 200
"""How many tasks are loaded around the visible ones."""

MARGIN = 50
"""Parts begin at multiples of this; within half of it from an edge, the next part is requested."""


class Part(NamedTuple):
    """A range of lines of the list."""

    offset: int
    limit: int

    @property
    def end(self) -> int:
        """The first line after the part."""
        return self.offset + self.limit


def part_around(first: int, height: int, total: int, present: Part) -> Part:
    """Return the part to load for `height` visible lines from `first` on: the `present` one while it is enough."""
    last = first + height
    good_start = present.offset == 0 or first >= present.offset + MARGIN // 2
    good_end = present.end >= total or last <= present.end - MARGIN // 2
    if good_start and good_end and first >= present.offset:
        return present
    limit = min(MOST_OF_PAGE, max(WINDOW, height + 2 * MARGIN))
    return Part(max(0, (first - (limit - height) // 2) // MARGIN * MARGIN), limit)


def anchored(part: Part, plain: Window, key_at: Callable[[int], str | None]) -> Window:
    """Return the window for `part`, anchored at a loaded row if possible, so that nothing before it has to be read.

    `plain` is the list's window and `key_at` returns the loaded keys. A jump has no anchor and counts from the list's
    head.
    """
    anchor: dict[str, Any] = {}
    if part.offset > 0:
        if (key := key_at(part.offset)) is not None:
            anchor = {"first": key}
        elif (key := key_at(part.end)) is not None:
            anchor = {"before": key}
        else:
            anchor = {"offset": part.offset}
    free = {"first": None, "after": None, "before": None, "offset": 0}
    return plain.model_copy(update={**free, **anchor, "limit": part.limit})
