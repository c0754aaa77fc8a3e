"""What waits to be sent on one socket: bounded, so that a slow reader costs a bounded amount of memory."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator

FRAME_BYTES = 1024 * 1024
"""Items are gathered into a frame up to this size; a larger item goes alone."""


def portions(encoded: Iterable[bytes], limit: int = FRAME_BYTES) -> Iterator[list[bytes]]:
    """Return the parts in portions of up to `limit` bytes; a larger one is a portion by itself."""
    portion: list[bytes] = []
    size = 0
    for part in encoded:
        if portion and size + len(part) > limit:
            yield portion
            portion, size = [], 0
        portion.append(part)
        size += len(part)
    if portion:
        yield portion


class Outbox:
    """Encoded items in the order in which they are to go out.

    When more than `limit` bytes wait the reader is too slow: everything is dropped, `overflowed` is set, and the
    session closes with code 4408. Nobody ever waits for a slow reader.
    """

    def __init__(self, limit: int) -> None:
        self.overflowed = False
        self.eased: Callable[[], None] = lambda: None
        """Called when it is crowded no more."""
        self._limit = limit
        self._items: deque[bytes] = deque()
        self._size = 0
        self._filled = asyncio.Event()

    def put(self, item: bytes) -> None:
        """Add an item, which is a JSON object."""
        if self.overflowed:
            return
        self._size += len(item)
        if self._size > self._limit and self._items:
            self.overflowed = True
            self._items.clear()
        else:
            self._items.append(item)
        self._filled.set()

    @property
    def is_crowded(self) -> bool:
        """Return whether so much waits that work which is not urgent should wait elsewhere: a quarter of the limit."""
        return self._size * 4 > self._limit

    async def frame(self) -> str | None:
        """Return the next frame when there is something to send, or None when the reader is too slow."""
        await self._filled.wait()
        if self.overflowed:
            return None
        taken = [self._items.popleft()]
        size = len(taken[0])
        while self._items and size + len(self._items[0]) <= FRAME_BYTES:
            taken.append(self._items.popleft())
            size += len(taken[-1])
        was_crowded = self.is_crowded
        self._size -= size
        if was_crowded and not self.is_crowded:
            self.eased()
        if not self._items:
            self._filled.clear()
        return (b'{"items":[' + b",".join(taken) + b"]}").decode()
