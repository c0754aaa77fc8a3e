"""A heap whose entries sink by themselves: it need only be told of entries that may rise."""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=tuple[Any, ...])

SPARE = 64
"""How many outdated entries are always tolerated."""


class LazyHeap(Generic[T, K]):
    """Items in the order of their keys, as long as `update` is called for each whose key may have become smaller.

    A key that has grown is noticed when its entry reaches the top (lazy increase of keys). When a key becomes smaller,
    the old entry stays, outdated, until it reaches the top or too many have gathered.
    """

    def __init__(self, key: Callable[[T], K | None]) -> None:
        """`key` returns None for items that are not to be found at present."""
        self._key = key
        self._keys: dict[T, K] = {}
        self._heap: list[tuple[K, T]] = []

    def update(self, one: T) -> None:
        """Add an item, or move it up to its present place."""
        key, known = self._key(one), self._keys.get(one)
        if key is None or (known is not None and known <= key):
            return
        self._keys[one] = key
        heappush(self._heap, (key, one))
        if len(self._heap) > 2 * len(self._keys) + SPARE:
            self._heap = [(key, one) for one, key in self._keys.items()]
            heapify(self._heap)

    def key_of(self, one: T) -> K | None:
        """Return the key of an item's entry, or None if it has none."""
        return self._keys.get(one)

    @property
    def only(self) -> T | None:
        """Return the item if there is exactly one, though it may no longer be available; otherwise None."""
        return next(iter(self._keys)) if len(self._keys) == 1 else None

    def first(self) -> T | None:
        """Return the first item, or None if there is none."""
        while self._heap:
            key, one = self._heap[0]
            if self._keys.get(one) != key:
                heappop(self._heap)
            elif (now := self._key(one)) is None:
                heappop(self._heap)
                del self._keys[one]
            elif now != key:
                self._keys[one] = now
                heapreplace(self._heap, (now, one))
                if self._heap[0] == (now, one):
                    return one
            else:
                return one
        return None
