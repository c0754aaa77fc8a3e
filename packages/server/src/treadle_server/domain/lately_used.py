"""An LRU cache that is bounded in number and in weight."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LatelyUsed(Generic[K, V]):
    """Values by key. When there are too many, or they weigh too much, the least recently used are dropped.

    The value that was put last stays, whatever it weighs, because its caller needs it.
    """

    def __init__(self, most: int, heaviest: int) -> None:
        """At most `most` values are kept, weighing at most `heaviest` together."""
        self._most = most
        self._heaviest = heaviest
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: K) -> V | None:
        """Return the value under the key, which counts as a use, or None if there is none."""
        if (found := self._kept.get(key)) is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Keep a value under the key, replacing any other."""
        self.drop(key)
        self._kept[key] = value, weight
        self._weight += weight
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._weight > self._heaviest):
            self._weight -= self._kept.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        """Forget the value under the key, if there is one."""
        if (found := self._kept.pop(key, None)) is not None:
            self._weight -= found[1]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._weight = 0
