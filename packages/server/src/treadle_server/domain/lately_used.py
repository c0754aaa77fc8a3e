"""What is remembered because it was used lately: bounded in number and in weight."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LatelyUsed(Generic[K, V]):
    """Things by their keys. When there are too many, or they weigh too much, the one not used for longest goes first.

    The last one stays, whatever it weighs: who needs it has it.
    """

    def __init__(self, most: int, heaviest: int) -> None:
        """`most` things are kept, and those that weigh `heaviest` together."""
        self._most = most
        self._heaviest = heaviest
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: K) -> V | None:
        """Return what is kept under the key, which counts as its use; None when nothing is."""
        if (found := self._kept.get(key)) is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Keep a thing under the key, instead of what was there."""
        self.drop(key)
        self._kept[key] = value, weight
        self._weight += weight
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._weight > self._heaviest):
            self._weight -= self._kept.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        """Forget what is kept under the key, if anything is."""
        if (found := self._kept.pop(key, None)) is not None:
            self._weight -= found[1]

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._weight = 0

    def values(self) -> list[V]:
        """Return everything, which is no use of it."""
        return [value for value, _ in self._kept.values()]
