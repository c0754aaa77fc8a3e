"""The lanes that were met, and who takes from which: there may be ten thousand, and few of them are new."""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

from treadle_server.engine.dispatch.fairness import MOST_KINDS, serves
from treadle_server.engine.dispatch.slots import Demand
from treadle_server.store.base import Tx
from treadle_server.store.transaction.heads import Claimable, claimable_lanes

JobsInPool = tuple[frozenset[int], str | None]
"""What demands take from: the jobs that they serve, and the pool in which they are."""


class KnownLanes:
    """What is remembered of lanes: whose they are for ever, and that they may be claimed from until it is forgotten."""

    def __init__(self) -> None:
        self._lanes: dict[int, Claimable] = {}
        self._open: set[int] = set()
        """Those of which it is known that they may be claimed from."""
        self._served: dict[JobsInPool, set[int]] = {}
        """Which of them demands of a kind take from."""

    def __getitem__(self, number: int) -> Claimable:
        """Return a lane that is known."""
        return self._lanes[number]

    def served_by(self, demands: Iterable[Demand]) -> set[int]:
        """Return those of the known lanes from which one of the demands takes."""
        kinds = {(demand.jobs, demand.pool) for demand in demands}
        return set().union(*(self._served_by(kind) for kind in kinds))

    def may_be_served(self, lanes: AbstractSet[int], demands: Collection[Demand]) -> set[int]:
        """Return those of the lanes from which one of the demands takes; one that is not known yet may be one."""
        if not demands:
            return set()
        return (lanes - self._lanes.keys()) | (lanes & self.served_by(demands))

    async def claimable(self, tx: Tx, lanes: AbstractSet[int]) -> AbstractSet[int]:
        """Return those of the lanes that may be claimed from, as they are remembered if all of them are."""
        if lanes <= self._open:
            return lanes
        found = {one.lane.id: one for one in await claimable_lanes(tx, lanes)}
        self._lanes |= found
        self._open |= found.keys()
        for kind, served in self._served.items():
            served.update(number for number, one in found.items() if serves(*kind, one.lane))
        return found.keys()

    def forget(self) -> None:
        """Read anew what may be claimed from."""
        self._open.clear()

    def _served_by(self, kind: JobsInPool) -> set[int]:
        if kind not in self._served:
            if len(self._served) >= MOST_KINDS:
                self._served.clear()
            self._served[kind] = {number for number, known in self._lanes.items() if serves(*kind, known.lane)}
        return self._served[kind]
