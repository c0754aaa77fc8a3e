"""A heap whose entries sink by themselves: only who may rise has to be told of."""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=tuple[Any, ...])

SPARE = 64
"""Outdated entries that are always borne."""


class LazyHeap(Generic[T, K]):
    """Things in the order of their keys, as long as it is told of each key that may have become smaller.

    A key that grows is noticed when its entry comes to the top (a lazy increase of keys); of one that became smaller
    the former entry stays, outdated, until it comes to the top or too many have gathered.
    """

    def __init__(self, key: Callable[[T], K | None]) -> None:
        """`key` returns None for what is not to be found here now."""
        self._key = key
        self._keys: dict[T, K] = {}
        self._heap: list[tuple[K, T]] = []

    def tell(self, one: T) -> None:
        """Put it in, or up to where it stands now."""
        key, known = self._key(one), self._keys.get(one)
        if key is None or (known is not None and known <= key):
            return
        self._keys[one] = key
        heappush(self._heap, (key, one))
        if len(self._heap) > 2 * len(self._keys) + SPARE:
            self._heap = [(key, one) for one, key in self._keys.items()]
            heapify(self._heap)

    def key_of(self, one: T) -> K | None:
        """Return the key under which it stands; None when it does not."""
        return self._keys.get(one)

    @property
    def only(self) -> T | None:
        """Return what there is when there is but one thing, which may be gone meanwhile."""
        return next(iter(self._keys)) if len(self._keys) == 1 else None

    def first(self) -> T | None:
        """Return what comes first; None when there is nothing."""
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
