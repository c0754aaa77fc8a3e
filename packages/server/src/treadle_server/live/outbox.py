"""The messages waiting to be sent on one socket; bounded, so that a slow reader costs a bounded amount of memory."""

import asyncio
from collections import deque
from collections.abc import Callable

FRAME_BYTES = 1024 * 1024
"""Items are gathered into a frame up to this size; a larger item goes alone."""


SHARE = 32
"""When too much waits on all sockets together, each may still have this fraction of its own limit."""


class Backlog:
    """The bytes that wait on all sockets together, and their limit.

    Without it thirty observers that did not read large rows made the server hold 0.9 GB, three hundred 5 GB.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0


class Outbox:
    """Encoded items in the order of sending.

    When an item is put behind more than `limit` bytes, the reader is too slow: everything is dropped, `overflowed` is
    set, and the session closes with code 4408. While the common `backlog` is full, that happens behind a `SHARE`th of
    the limit: clients that read have less waiting. Items that a reader must get, and that would only be sent again on
    its next connection, wait outside until there is room; an item is accepted however large it is. Nothing else ever
    waits.
    """

    def __init__(self, limit: int, backlog: Backlog | None = None) -> None:
        """Without `backlog` it is treated as the only outbox."""
        self.overflowed = False
        self.is_closed = False
        """Whether the connection has ended."""
        self.eased: set[Callable[[], None]] = set()
        """Called when it is no longer crowded."""
        self._limit = limit
        self._backlog = backlog or Backlog(limit)
        self._items: deque[bytes] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()

    def put(self, item: bytes) -> None:
        """Add an item, which is a JSON object."""
        if self.overflowed or self.is_closed:
            return
        if self._size > self._most:
            self.overflowed = True
            self._drop()
        else:
            self._items.append(item)
            self._weigh(len(item))
            if self.is_crowded:
                self._roomy.clear()
        self._filled.set()

    @property
    def _most(self) -> int:
        return self._limit // SHARE if self._backlog.size > self._backlog.most else self._limit

    @property
    def is_crowded(self) -> bool:
        """Return whether work that is not urgent should wait: more than a quarter of the limit is waiting."""
        return not self.has_room()

    def has_room(self, beside: int = 0) -> bool:
        """Return whether there is room for more work, in addition to `beside` bytes that are about to be put in."""
        return (self._size + beside) * 4 <= self._most

    async def room(self) -> None:
        """Wait until it is not crowded, or has overflowed or closed."""
        while self.is_crowded and not (self.overflowed or self.is_closed):
            self._roomy.clear()
            await self._roomy.wait()

    def close(self) -> None:
        """Drop everything, and accept nothing more: the connection has ended."""
        self.is_closed = True
        self._drop()

    def _drop(self) -> None:
        self._items.clear()
        self._weigh(-self._size)
        self._roomy.set()

    def _weigh(self, more: int) -> None:
        self._size += more
        self._backlog.size += more

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
        self._weigh(-size)
        if not self._roomy.is_set() and not self.is_crowded:
            self._roomy.set()
            for eased in self.eased:
                eased()
        if not self._items:
            self._filled.clear()
        return (b'{"items":[' + b",".join(taken) + b"]}").decode()
