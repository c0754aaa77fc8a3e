"""The lanes seen so far, and which demands take from them: there may be ten thousand, of which few are new."""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

from treadle_server.engine.dispatch.fairness import MOST_KINDS, serves
from treadle_server.engine.dispatch.slots import Demand
from treadle_server.store.base import Tx
from treadle_server.store.transaction.heads import Claimable, claimable_lanes

MOST_LANES = 20_000
"""How many lanes are known at most, beside those in which tasks wait: a job that is fair has one for each room."""

MOST_ASKED = 100
"""Of how many lanes the jobs are looked up for a claim: so many may wait for any of its workers."""

JobsInPool = tuple[frozenset[int], str | None]
"""What decides from which lanes a demand takes: the jobs that it serves, and its pool."""


class KnownLanes:
    """What is remembered of lanes: their job, and until `forget` is called that they may be claimed from."""

    def __init__(self) -> None:
        self._lanes: dict[int, Claimable] = {}
        self._open: set[int] = set()
        """The lanes that are known to be open for claims."""
        self._served: dict[JobsInPool, set[int]] = {}
        """The lanes from which demands of each kind take."""

    def __len__(self) -> int:
        """Return how many lanes are known."""
        return len(self._lanes)

    def __getitem__(self, number: int) -> Claimable:
        """Return a known lane."""
        return self._lanes[number]

    def served_by(self, demands: Iterable[Demand]) -> set[int]:
        """Return the known lanes from which at least one of the demands takes."""
        kinds = {(demand.jobs, demand.pool) for demand in demands}
        return set().union(*(self._served_by(kind) for kind in kinds))

    def may_be_served(self, lanes: AbstractSet[int], demands: Collection[Demand]) -> set[int]:
        """Return those of the lanes from which one of the demands takes, or may take because they are not known yet."""
        if not demands:
            return set()
        return (lanes - self._lanes.keys()) | (lanes & self.served_by(demands))

    def jobs_of(self, lanes: AbstractSet[int]) -> set[int] | None:
        """Return the jobs of the lanes; None if one is not known yet, or they are more than `MOST_ASKED`."""
        if len(lanes) > MOST_ASKED or not self._lanes.keys() >= lanes:
            return None
        return {self._lanes[lane].lane.job_num for lane in lanes}

    async def claimable(self, tx: Tx, lanes: AbstractSet[int]) -> AbstractSet[int]:
        """Return those of the lanes that may be claimed from; read nothing if all of them are known to be open."""
        if lanes <= self._open:
            return lanes
        found = {one.lane.id: one for one in await claimable_lanes(tx, lanes - self._open)}
        self._lanes |= found
        self._open |= found.keys()
        for kind, served in self._served.items():
            served.update(number for number, one in found.items() if serves(*kind, one.lane))
        return lanes & self._open

    def forget(self) -> None:
        """Forget which lanes are open, so that this is read again; of too many lanes everything."""
        self._open.clear()
        if len(self._lanes) > MOST_LANES:
            self._lanes.clear()
            self._served.clear()

    def _served_by(self, kind: JobsInPool) -> set[int]:
        if kind not in self._served:
            if len(self._served) >= MOST_KINDS:
                self._served.clear()
            self._served[kind] = {number for number, known in self._lanes.items() if serves(*kind, known.lane)}
        return self._served[kind]
