"""The workers on this server's socket: there may be ten thousand, of which a claim has to look at few."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence

from treadle.wire.ids import WorkerId
from treadle_server.engine.dispatch.slots import WorkerSlot

ENOUGH = 500
"""How much room of idle workers that are equal in what they take is looked for; more would stay empty in any case.

With all 10,000 idle workers of a server a lone task took it 36 ms of processor time, with those that are needed 4.
"""


class Roster:
    """The slots of these workers, in turn."""

    def __init__(self) -> None:
        self._slots: deque[WorkerSlot] = deque()
        self._of_worker: dict[WorkerId, list[WorkerSlot]] = {}

    def __iter__(self) -> Iterator[WorkerSlot]:
        return iter(self._slots)

    def add(self, slot: WorkerSlot) -> None:
        """Add a slot; it is the last in turn."""
        self._slots.append(slot)
        self._of_worker.setdefault(slot.worker_id, []).append(slot)

    def remove(self, slot: WorkerSlot) -> None:
        """Remove a slot, if it is there."""
        if slot in (slots := self._of_worker.get(slot.worker_id, [])):
            slots.remove(slot)
            self._slots.remove(slot)
            if not slots:
                del self._of_worker[slot.worker_id]

    def of(self, worker_id: WorkerId) -> Sequence[WorkerSlot]:
        """Return the worker's slots."""
        return self._of_worker.get(worker_id, ())

    def rotate(self) -> None:
        """Make the first slot the last in turn."""
        self._slots.rotate(-1)

    def takers(self, jobs: Collection[int] | None, takes: Callable[[WorkerSlot], bool]) -> list[WorkerSlot]:
        """Return slots that `takes` says yes to, in turn: all that serve one of these jobs, or of any if that is None.

        Of slots that are equal in what they take, those behind `ENOUGH` room of idle ones are left out: they could take
        nothing that these can't, and take part in the next claim, which follows if this one hands out anything.
        """
        found: list[WorkerSlot] = []
        idle: Counter[tuple[frozenset[int], str | None, int]] = Counter()
        for slot in self._slots:
            if jobs is not None and slot.jobs.isdisjoint(jobs):
                continue
            kind = (slot.jobs, slot.pool, slot.concurrency)
            if idle[kind] < ENOUGH and takes(slot):
                found.append(slot)
                if not slot.used:
                    idle[kind] += slot.room()
        return found
