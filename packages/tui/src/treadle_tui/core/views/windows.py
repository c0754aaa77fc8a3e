"""Which part of a long list is loaded: what is visible, and enough round it that scrolling seldom waits."""

from collections.abc import Callable
from typing import Any, NamedTuple

from treadle.wire.frames import Window
from treadle.wire.pages import MOST_OF_PAGE

WINDOW = 200
"""How many tasks are loaded round the visible ones."""

MARGIN = 50
"""Parts begin at multiples of this; nearer than half of it to an edge of one, the next is asked for."""


class Part(NamedTuple):
    """Some neighbouring lines of the list."""

    offset: int
    limit: int

    @property
    def end(self) -> int:
        """The first line behind it."""
        return self.offset + self.limit


def part_around(first: int, height: int, total: int, present: Part) -> Part:
    """Return the part to load when `height` lines from `first` on are visible: `present` as long as it will do."""
    last = first + height
    good_start = present.offset == 0 or first >= present.offset + MARGIN // 2
    good_end = present.end >= total or last <= present.end - MARGIN // 2
    if good_start and good_end and first >= present.offset:
        return present
    limit = min(MOST_OF_PAGE, max(WINDOW, height + 2 * MARGIN))
    return Part(max(0, (first - (limit - height) // 2) // MARGIN * MARGIN), limit)


def anchored(part: Part, plain: Window, key_at: Callable[[int], str | None]) -> Window:
    """Return the window for `part`, hung on a row that is loaded, for then nothing before it is read.

    `plain` says of which list, `key_at` what is loaded. A jump has nothing to hang on: it is counted from the head.
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
