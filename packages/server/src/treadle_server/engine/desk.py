"""Where workers wait and tasks are handed to them: the claims of a batch, in its own transaction."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from treadle.wire.ids import WorkerId
from treadle.wire.status import Status, WorkerState
from treadle_server.domain import life
from treadle_server.domain.jobs import Worker
from treadle_server.domain.tasks import Task
from treadle_server.engine.claims import Line, Turns, capacities_for, match, serves
from treadle_server.engine.hub import Change
from treadle_server.engine.seats import Capacity, ClaimKey, Demand, RunKey, Seat, Waiting
from treadle_server.engine.shelf import Shelf, behind
from treadle_server.store import hot
from treadle_server.store.base import Tx
from treadle_server.store.claim_keys import Kept, keep_claims
from treadle_server.store.counts import CountKey
from treadle_server.store.heads import Claimable, claimable_lanes, lock_claims, waiting_lanes, weights_held

Freed = tuple[Seat, RunKey, int]
"""A run's weight that its worker has free again."""

MOST_HEADS = 500
"""Tasks that one transaction hands out of one lane."""


@dataclass(slots=True)
class Handover:
    """The claims of one transaction, not committed yet."""

    given: dict[Demand, list[Task]] = field(default_factory=lambda: defaultdict(list))
    changes: list[Change] = field(default_factory=list)
    counted: Counter[CountKey] = field(default_factory=Counter)
    targets: set[int] = field(default_factory=set)
    """The targets that the claimed tasks hold from now on."""
    asked: list[Waiting] = field(default_factory=list)
    """HTTP claims that were there when the heads were read."""
    left: set[int] = field(default_factory=set)
    """Lanes of which it has read, and so locked, more than it claims: to another server they look empty meanwhile."""

    def withdraw(self) -> None:
        """Undo the reservations: the transaction failed."""
        for demand, tasks in self.given.items():
            demand.withdraw([(task.id, task.run_id) for task in tasks])

    def claimed(self) -> list[tuple[RunKey, Demand]]:
        """Return whose each claimed run is."""
        return [((task.id, task.run_id), demand) for demand, tasks in self.given.items() for task in tasks]


class Desk:
    """Seats and waiting claims, and the lanes in which something may be claimable."""

    def __init__(self, clock: Callable[[], float] = monotonic, *, worker_timeout: float = 60.0) -> None:
        """`clock` is the monotonic one; without a heartbeat for `worker_timeout` seconds a worker is lost."""
        self._clock = clock
        self._worker_timeout = worker_timeout
        self._seats: deque[Seat] = deque()
        self._seated: Counter[WorkerId] = Counter()
        self._waiting: list[Waiting] = []
        self._turns = Turns()
        self.shelf = Shelf()
        self._lanes: dict[int, Claimable] = {}
        self._open: set[int] = set()
        """Lanes of which it is known that they may be claimed from."""
        self._holder: dict[RunKey, Seat] = {}
        self._ready: set[int] = set()
        self._met: set[int] = set()
        """Jobs that somebody here has served: since then every wake-up for them was noted."""
        self._strange: set[int] = set()
        """Jobs that are served for the first time: what waits for them came when nobody listened."""
        self._news = False
        """Whether anything changed since claims were last tried in vain."""

    def wake(self, lanes: Collection[int]) -> None:
        """Note lanes that may have something claimable: a hint, renewed by a poll."""
        if lanes:
            self._ready.update(lanes)
            self._news = True

    def still_ready(self, lanes: Collection[int]) -> set[int]:
        """Return those of the lanes that may have something claimable that nobody here has taken."""
        return self._ready.intersection(lanes)

    def seats_of(self, worker_ids: Collection[WorkerId]) -> list[Seat]:
        """Return the seats of those of the workers that are on the socket of this server."""
        return [seat for seat in self._seats if seat.worker_id in worker_ids]

    @property
    def seats(self) -> list[Seat]:
        """Return the seats of all workers on the socket of this server."""
        return list(self._seats)

    def serves_worker(self, worker_id: WorkerId) -> bool:
        """Return whether the worker is on the socket of this server."""
        return worker_id in self._seated

    def is_waited_for(self, worker_ids: Collection[WorkerId]) -> bool:
        """Return whether a claim of one of the workers waits here."""
        return any(waiting.worker_id in worker_ids for waiting in self._waiting)

    def waits(self, worker_id: WorkerId) -> bool:
        """Return whether the worker is on the socket of this server, or has a claim that waits here."""
        return self.serves_worker(worker_id) or self.is_waited_for([worker_id])

    def look_again(self) -> None:
        """Note that a worker may have room that had none."""
        self._news = True

    def give_up(self, error: Exception) -> None:
        """Stop trying until something changes: the last try failed. Whoever waits over HTTP is told."""
        self._news = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(error)

    def open_seat(self, seat: Seat) -> None:
        """Let a worker on the socket wait."""
        seat.presence.at = self._clock()
        self._seats.append(seat)
        self._seated[seat.worker_id] += 1
        self._meet(seat.jobs)
        for key in seat.held:
            self._holder[key] = seat

    def close_seat(self, seat: Seat) -> None:
        """Let a worker leave; what it holds stays its own."""
        seat.open = False
        if seat in self._seats:
            self._seats.remove(seat)
            self._seated[seat.worker_id] -= 1
            if not self._seated[seat.worker_id]:
                del self._seated[seat.worker_id]
        self._holder = {key: held for key, held in self._holder.items() if held is not seat}

    def wait(self, waiting: Waiting) -> None:
        """Let a claim over HTTP wait; it is a sign of life."""
        waiting.presence.at = self._clock()
        self._waiting.append(waiting)
        self._meet(waiting.jobs)

    def link(self, links: Collection[tuple[WorkerId, int]]) -> bool:
        """Let workers that wait serve one more job each; return whether one of them waits here."""
        jobs: dict[WorkerId, set[int]] = defaultdict(set)
        for worker_id, job_num in links:
            jobs[worker_id].add(job_num)
        demands: list[Demand] = [*self._seats, *self._waiting]
        found = [demand for demand in demands if demand.worker_id in jobs]
        for demand in found:
            demand.jobs |= jobs[demand.worker_id]
            self._meet(demand.jobs)
        return bool(found)

    def _meet(self, jobs: set[int]) -> None:
        self._strange |= jobs - self._met
        self._news = True

    def waiting_under(self, worker_id: WorkerId, key: ClaimKey) -> Waiting | None:
        """Return the worker's claim that waits here under this key."""
        for waiting in self._waiting:
            if waiting.worker_id == worker_id and waiting.key is not None and waiting.key.text == key.text:
                return waiting
        return None

    def forget(self, waiting: Waiting) -> None:
        """Let it go."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    def release(self, keys: Collection[RunKey], at: float) -> list[Freed]:
        """Free the weight of runs whose code has ended, at the monotonic instant `at`; return what was freed.

        It is done within the transaction that takes the reports, so that the same one fills the room again: half as
        many commits, and the worker has its next work with the answer.
        """
        if keys and any(waiting.limit is not None for waiting in self._waiting):
            self._news = True
        freed: list[Freed] = []
        for key in keys:
            if (seat := self._holder.pop(key, None)) is not None:
                freed.append((seat, key, seat.release(key)))
            elif self._waiting:
                # Its worker may be one whose claim over HTTP waits for room.
                self._news = True
        for seat in {id(seat): seat for seat, _, _ in freed}.values():
            seat.reckon(at)
        self._news = self._news or bool(freed)
        return freed

    def hold_again(self, freed: Collection[Freed]) -> None:
        """Take the releases of a transaction back that failed."""
        for seat, key, weight in freed:
            seat.hold_again(key, weight)
            self._holder[key] = seat

    def heed(self, workers: Collection[Worker], gone: Collection[WorkerId]) -> None:
        """Give no more to workers that drain or are gone, from this very batch on, and more to those that are back."""
        draining = {worker.id: worker.state is not WorkerState.ONLINE for worker in workers} | dict.fromkeys(gone, True)
        demands: list[Demand] = [*self._seats, *self._waiting] if draining else []
        for demand in demands:
            before, demand.draining = demand.draining, draining.get(demand.worker_id, demand.draining)
            self._news = self._news or before > demand.draining
        self.hear(workers)

    def hear(self, workers: Collection[Worker]) -> None:
        """Note which workers were heard of: who owed a heartbeat may take tasks again."""
        heard = {worker.id: worker for worker in workers}
        if not heard:
            return
        at = self._clock()
        demands: list[Demand] = [*self._seats, *self._waiting]
        for demand in demands:
            if (worker := heard.get(demand.worker_id)) is not None:
                owed = demand.owes(at, self._worker_timeout)
                demand.presence.heed(worker, at)
                self._news = self._news or owed

    def _owes(self, demand: Demand) -> bool:
        """Return whether the worker owes a heartbeat: it may be deaf, and what it is given would be lost."""
        return demand.owes(self._clock(), self._worker_timeout)

    @property
    def is_hungry(self) -> bool:
        """Return whether anyone takes a task."""
        return any(not (waiting.draining or self._owes(waiting)) for waiting in self._waiting) or any(
            seat.room() > 0 and not self._owes(seat) for seat in self._seats
        )

    @property
    def has_impatient(self) -> bool:
        """Return whether an HTTP claim wants an answer from the next batch, whatever it is."""
        return any(not waiting.patient for waiting in self._waiting)

    @property
    def can_serve(self) -> bool:
        """Return whether a claim may find something."""
        return self._news and bool(self._ready or self._strange) and self.is_hungry

    async def hand_out(self, tx: Tx, now: datetime) -> Handover:
        """Claim what is ready for who waits, within the transaction."""
        handover = Handover(asked=list(self._waiting))
        await self._weigh(tx, handover.asked)
        demands: list[Demand] = [*handover.asked, *self._seats]
        demands = [demand for demand in demands if demand.room() > 0 and not self._owes(demand)]
        self._seats.rotate(-1)
        self._news = False
        await self._look_around(tx)
        wanted = self._wanted(demands)
        if not wanted:
            return handover
        lines = await self._lines(tx, wanted, demands, now)
        if not any(line.tasks for line in lines):
            return handover
        before = {line.lane.id: len(line.tasks) for line in lines}
        await self._claim(tx, handover, match(lines, demands, self._turns), now)
        self.shelf.taken({line.lane.id: before[line.lane.id] - len(line.tasks) for line in lines})
        self._ready -= {line.lane.id for line in lines if line.is_all and not line.tasks}
        if handover.given:
            # Not of a try in vain: two servers whose workers can't take what is there would wake each other for ever.
            handover.left = {line.lane.id for line in lines if line.tasks}
        self._news = bool(handover.given)
        return handover

    async def _claim(self, tx: Tx, handover: Handover, matched: list[tuple[Demand, Task]], now: datetime) -> None:
        """Write the claims: no target is settled, for a claim takes its one claimable task."""
        moved: list[hot.Moved] = []
        counts = handover.counted
        for demand, task in matched:
            moved.append((task, task.version))
            life.claim(task, demand.worker_id, now)
            handover.given[demand].append(task)
            handover.changes.append(Change(task, Status.PENDING))
            counts[task.lane, "pending", task.priority] -= 1
            counts[task.lane, "claimed", 0] += 1
        try:
            await self._keep(tx, handover, now)
            handover.targets = {task.target_num for _, task in matched if task.target_num is not None}
            await hot.claim(tx, moved, counts)
        except BaseException:
            handover.withdraw()
            raise

    async def _keep(self, tx: Tx, handover: Handover, now: datetime) -> None:
        """Keep what is claimed under a key, for a lease; where the key has claims already, these are under none."""
        keyed = [
            (w, w.key, tasks) for w, tasks in handover.given.items() if isinstance(w, Waiting) and w.key is not None
        ]
        if not keyed:
            return
        new = [
            Kept(w.worker_id, key.text, key.body, [(task.id, task.run_id) for task in tasks], _last_lease(tasks, now))
            for w, key, tasks in keyed
        ]
        kept = await keep_claims(tx, new, now)
        for waiting, key, _ in keyed:
            if (waiting.worker_id, key.text) not in kept:
                waiting.key = None

    async def _weigh(self, tx: Tx, asked: list[Waiting]) -> None:
        """Find out what those who claim over HTTP hold; the claims of one worker share one capacity (E5)."""
        limits: dict[WorkerId, Capacity] = {}
        for waiting in asked:
            if waiting.limit is not None:
                waiting.limit = limits.setdefault(waiting.worker_id, waiting.limit)
        await lock_claims(tx, limits.keys())
        for worker_id, weight in (await weights_held(tx, limits.keys())).items():
            limits[worker_id].weigh(weight, self._clock())

    async def _look_around(self, tx: Tx) -> None:
        """Find what came before anybody here served its job: before a restart, or through another server."""
        if self._strange:
            self._ready |= await waiting_lanes(tx)
            self._met |= self._strange
            self._strange = set()

    def _wanted(self, demands: list[Demand]) -> set[int]:
        """Return the ready lanes that one of the demands takes from; a lane that is not known yet may be one."""
        return (
            {
                number
                for number in self._ready
                if (known := self._lanes.get(number)) is None or any(serves(demand, known.lane) for demand in demands)
            }
            if demands
            else set()
        )

    async def _lines(self, tx: Tx, wanted: set[int], demands: list[Demand], now: datetime) -> list[Line]:
        found = await self._claimable(tx, wanted)
        # What is paused or deleted is woken when that changes.
        self._ready -= wanted - {one.lane.id for one in found}
        served = [one for one in found if any(serves(demand, one.lane) for demand in demands)]
        most = min(MOST_HEADS, sum(_appetite(demand) for demand in demands))
        stocks = await self.shelf.fill(tx, [one.lane.id for one in served], most, now)
        self._ready -= {lane for lane, stock in stocks.items() if not stock.tasks}
        capacities = {one.lane.id: capacities_for(one.lane, demands) for one in served}
        light = await behind(tx, stocks, capacities, most, now)
        return [
            Line(one.lane, one.lane.room or one.room, stock.tasks, light.get(one.lane.id, {}), is_all=stock.is_all)
            for one in served
            for stock in [stocks[one.lane.id]]
        ]

    async def _claimable(self, tx: Tx, wanted: set[int]) -> list[Claimable]:
        """Return those of the lanes that may be claimed from, as they are remembered if all of them are."""
        if not wanted <= self._open:
            found = await claimable_lanes(tx, wanted)
            self._lanes |= {one.lane.id: one for one in found}
            self._open |= {one.lane.id for one in found}
            return found
        return [self._lanes[number] for number in wanted]

    def doubt_lanes(self) -> None:
        """Read anew what may be claimed: a job was changed, or something may have been by another writer."""
        self._open.clear()
        self.shelf.clear()

    def deliver(self, handover: Handover, at: float) -> list[Demand]:
        """Give the claims out at the monotonic instant `at`: the transaction is committed.

        Return the seats that were closed meanwhile.
        """
        for key, demand in handover.claimed():
            if isinstance(demand, Seat):
                self._holder[key] = demand
        closed: list[Demand] = []
        for demand, tasks in handover.given.items():
            if isinstance(demand, Seat):
                if demand.open:
                    demand.begin(len(tasks), at)
                    demand.deliver(tasks)
                else:
                    closed.append(demand)
        for waiting in handover.asked:
            claimed = handover.given.get(waiting, [])
            if claimed or not waiting.patient:
                self.forget(waiting)
                if not waiting.answer.done():
                    waiting.answer.set_result(claimed)
        return closed


def _last_lease(tasks: list[Task], now: datetime) -> datetime:
    """Return when the last of the leases ends."""
    return max((task.taken_until for task in tasks if task.taken_until is not None), default=now)


def _appetite(demand: Demand) -> int:
    """Return how many tasks the demand may take at most."""
    return min(demand.most - demand.taken, demand.room()) if isinstance(demand, Waiting) else demand.room()
