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

    Whoever puts something behind more than `limit` bytes finds the reader too slow: everything is dropped, `overflowed`
    is set, and the session closes with code 4408. What a reader must have, and would only be sent again on its next
    connection, waits outside until there is room; an item is taken however large it is. Nobody else ever waits.
    """

    def __init__(self, limit: int) -> None:
        self.overflowed = False
        self.eased: set[Callable[[], None]] = set()
        """Each is called when it is crowded no more."""
        self._limit = limit
        self._items: deque[bytes] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._is_closed = False

    def put(self, item: bytes) -> None:
        """Add an item, which is a JSON object."""
        if self.overflowed or self._is_closed:
            return
        if self._size > self._limit:
            self.overflowed = True
            self._items.clear()
            self._roomy.set()
        else:
            self._items.append(item)
            self._size += len(item)
            if self.is_crowded:
                self._roomy.clear()
        self._filled.set()

    @property
    def is_crowded(self) -> bool:
        """Return whether so much waits that work which is not urgent should wait elsewhere: a quarter of the limit."""
        return not self.has_room()

    def has_room(self, beside: int = 0) -> bool:
        """Return whether there is room for more work, beside so many bytes that are about to be put in."""
        return (self._size + beside) * 4 <= self._limit

    async def room(self) -> None:
        """Wait until it is not crowded, or takes nothing any more."""
        while self.is_crowded and not (self.overflowed or self._is_closed):
            await self._roomy.wait()

    def close(self) -> None:
        """Take nothing more: nobody is there to send it to."""
        self._is_closed = True
        self._items.clear()
        self._roomy.set()

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
            self._roomy.set()
            for eased in self.eased:
                eased()
        if not self._items:
            self._filled.clear()
        return (b'{"items":[' + b",".join(taken) + b"]}").decode()
