"""Hands tasks to waiting workers: makes the claims of a batch, in the batch's own transaction."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from itertools import chain
from time import monotonic

from treadle.wire.ids import WorkerId
from treadle.wire.status import Status, WorkerState
from treadle_server.domain import life
from treadle_server.domain.jobs import Worker
from treadle_server.domain.tasks import ClaimKey, RunKey, Task
from treadle_server.engine.dispatch.assignments import Assignments, keep_keyed, sooner
from treadle_server.engine.dispatch.fairness import LaneHead, ServiceOrders, capacities_for, match
from treadle_server.engine.dispatch.head_cache import CachedHead, HeadCache, behind
from treadle_server.engine.dispatch.known_lanes import MOST_LANES, KnownLanes
from treadle_server.engine.dispatch.roster import Roster
from treadle_server.engine.dispatch.slots import Capacity, Demand, WaitingClaim, WorkerSlot
from treadle_server.engine.hub import Change
from treadle_server.store.base import Tx
from treadle_server.store.transaction import hot
from treadle_server.store.transaction.counts import count_alike
from treadle_server.store.transaction.gates import close_gate, open_gate
from treadle_server.store.transaction.heads import lock_claims, waiting_lanes, weights_held

Freed = tuple[WorkerSlot, RunKey, int]
"""A run whose weight was freed: its slot, its key and its weight."""

MOST_HEADS = 500
"""How many tasks of one lane a round of a transaction hands out at most."""

MOST_DRAINING = 1_000
"""How many draining workers are remembered; another server may remove one without this server's knowledge."""

MOST_ROUNDS = 10
"""How often one transaction reads on, twice as much each time, when limits shut out tasks at the heads of lanes."""


class Dispatcher:
    """The slots and waiting claims of workers, and the lanes in which tasks may be claimable."""

    def __init__(self, clock: Callable[[], float] = monotonic, *, worker_timeout: float = 60.0) -> None:
        """`clock` must be monotonic; without a heartbeat for `worker_timeout` seconds a worker is lost."""
        self._clock = clock
        self._worker_timeout = worker_timeout
        self._slots = Roster()
        self._freed: list[WorkerSlot] = []
        """The slots that were freed last: where most workers are busy, one of these has room."""
        self._waiting: list[WaitingClaim] = []
        self._draining: set[WorkerId] = set()
        """Workers known to be draining. One that starts to wait was read earlier, and may have begun to drain since."""
        self._orders = ServiceOrders()
        self.head_cache = HeadCache()
        self._lanes = KnownLanes()
        self._holder: dict[RunKey, WorkerSlot] = {}
        self._ready: set[int] = set()
        self._seen_jobs: set[int] = set()
        """Jobs that a worker here has served; every wake-up for them since then was noted."""
        self._unseen_jobs: set[int] = set()
        """Jobs that are served here for the first time; wake-ups for tasks that already wait were not noted."""
        self._has_changed = False
        """Whether anything has changed since the last try to claim found nothing."""
        self._woken: set[int] = set()
        """Lanes woken since the last try began, whatever it has read of them."""

    def wake(self, lanes: Collection[int]) -> None:
        """Note lanes that may have claimable tasks. This is a hint, backed by a poll."""
        if lanes:
            self._ready.update(lanes)
            self._woken.update(lanes)
            self._has_changed = True

    def still_ready(self, lanes: Collection[int]) -> set[int]:
        """Return those of the lanes that may have claimable tasks which no worker here has taken."""
        return self._ready.intersection(lanes)

    @property
    def slots(self) -> list[WorkerSlot]:
        """Return the slots of all workers on this server's socket."""
        return list(self._slots)

    def _demands_of(self, worker_ids: Collection[WorkerId]) -> list[Demand]:
        """Return what waits here for these workers."""
        waiting = [one for one in self._waiting if one.worker_id in worker_ids]
        return [*chain.from_iterable(map(self._slots.of, worker_ids)), *waiting]

    def serves_worker(self, worker_id: WorkerId) -> bool:
        """Return whether the worker is on this server's socket."""
        return bool(self._slots.of(worker_id))

    def is_waited_for(self, worker_ids: Collection[WorkerId]) -> bool:
        """Return whether a claim of one of the workers waits here."""
        return any(waiting.worker_id in worker_ids for waiting in self._waiting)

    def look_again(self) -> None:
        """Note that a worker without room may have some now."""
        self._has_changed = True

    def give_up(self, error: Exception) -> None:
        """Stop trying until something changes, because the last try failed; HTTP claims are answered with the error."""
        self._has_changed = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.answer.done():
                one.answer.set_exception(error)

    def open_slot(self, slot: WorkerSlot) -> None:
        """Let a worker on the socket wait."""
        slot.presence.at = self._clock()
        slot.draining |= slot.worker_id in self._draining
        self._slots.add(slot)
        self._note_jobs(slot.jobs)
        for key in slot.held:
            self._holder[key] = slot

    def close_slot(self, slot: WorkerSlot) -> None:
        """Remove a worker that leaves; it keeps what it holds."""
        slot.open = False
        self._slots.remove(slot)
        for key in slot.held:
            if self._holder.get(key) is slot:
                del self._holder[key]

    def wait(self, waiting: WaitingClaim) -> None:
        """Let a claim over HTTP wait; the claim counts as a sign of life."""
        waiting.presence.at = self._clock()
        waiting.draining |= waiting.worker_id in self._draining
        self._waiting.append(waiting)
        self._note_jobs(waiting.jobs)

    def link(self, links: Collection[tuple[WorkerId, int]]) -> bool:
        """Let waiting workers serve the jobs that were linked to them; return whether one of them waits here."""
        jobs: dict[WorkerId, set[int]] = defaultdict(set)
        for worker_id, job_num in links:
            jobs[worker_id].add(job_num)
        found = self._demands_of(jobs.keys())
        for demand in found:
            demand.jobs |= jobs[demand.worker_id]
            self._note_jobs(demand.jobs)
        return bool(found)

    def _note_jobs(self, jobs: frozenset[int]) -> None:
        self._unseen_jobs |= jobs - self._seen_jobs
        self._has_changed = True

    def waiting_under(self, worker_id: WorkerId, key: ClaimKey) -> WaitingClaim | None:
        """Return the worker's HTTP claim that waits here under this key, or None if there is none."""
        for waiting in self._waiting:
            if waiting.worker_id == worker_id and waiting.key is not None and waiting.key.text == key.text:
                return waiting
        return None

    def forget(self, waiting: WaitingClaim) -> None:
        """Remove a waiting claim, if it is still there."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    def release(self, keys: Collection[RunKey], at: float) -> list[Freed]:
        """Free the weight of runs whose code has ended, at the monotonic instant `at`; return what was freed.

        This happens within the transaction that writes the reports, so that it can fill the room again: that halves the
        commits, and the worker gets its next tasks along with the answer.
        """
        if keys and any(waiting.limit is not None for waiting in self._waiting):
            self._has_changed = True
        freed: list[Freed] = []
        for key in keys:
            if (slot := self._holder.pop(key, None)) is not None:
                freed.append((slot, key, slot.release(key)))
            elif self._waiting:
                # Its worker may have a claim over HTTP that waits for room.
                self._has_changed = True
        if freed:
            self._freed = list(dict.fromkeys(slot for slot, _, _ in freed))
            for slot in self._freed:
                slot.update_pace(at)
        self._has_changed = self._has_changed or bool(freed)
        return freed

    def hold_again(self, freed: Collection[Freed]) -> None:
        """Undo the releases of a failed transaction."""
        for slot, key, weight in freed:
            slot.hold_again(key, weight)
            self._holder[key] = slot

    def note_workers(self, workers: Collection[Worker], gone: Collection[WorkerId]) -> None:
        """Give nothing more, from this batch on, to workers that drain or are gone, and serve those that are back."""
        draining = {worker.id: worker.state is not WorkerState.ONLINE for worker in workers} | dict.fromkeys(gone, True)
        for demand in self._demands_of(draining.keys()):
            before, demand.draining = demand.draining, draining[demand.worker_id]
            self._has_changed = self._has_changed or before > demand.draining
        known = {worker.id for worker in workers}.union(gone)
        others = self._draining - known if len(self._draining) < MOST_DRAINING else set[WorkerId]()
        self._draining = others | {worker.id for worker in workers if worker.state is WorkerState.DRAINING}
        self.note_heartbeats(workers)

    def note_online(self, workers: Iterable[Worker]) -> None:
        """Note that workers which were read don't drain: another server may have ended it, unheard of here as yet."""
        if self._draining:
            self._draining -= {worker.id for worker in workers if worker.state is WorkerState.ONLINE}

    def note_heartbeats(self, workers: Collection[Worker]) -> None:
        """Note which workers were heard from: one that owed a heartbeat may take tasks again."""
        heard = {worker.id: worker for worker in workers}
        at = self._clock()
        for demand in self._demands_of(heard.keys()):
            owed = demand.owes(at, self._worker_timeout)
            demand.presence.note(heard[demand.worker_id], at)
            self._has_changed = self._has_changed or owed

    def _owes(self, demand: Demand) -> bool:
        """Return whether the worker owes a heartbeat: it may be unreachable, and what it is given would be lost."""
        return demand.owes(self._clock(), self._worker_timeout)

    def _takes(self, demand: Demand) -> bool:
        return demand.room() > 0 and not self._owes(demand)

    @property
    def has_taker(self) -> bool:
        """Return whether any worker can take a task."""
        return any(not (waiting.draining or self._owes(waiting)) for waiting in self._waiting) or any(
            map(self._takes, chain(self._freed, self._slots))
        )

    @property
    def has_impatient(self) -> bool:
        """Return whether an HTTP claim must be answered by the next batch, with tasks or without."""
        return any(not waiting.patient for waiting in self._waiting)

    @property
    def has_claims(self) -> bool:
        """Return whether claims over HTTP wait. Each is answered once, with what one batch gives it."""
        return bool(self._waiting)

    @property
    def can_serve(self) -> bool:
        """Return whether trying to claim may find a task."""
        return self._has_changed and bool(self._ready or self._unseen_jobs) and self.has_taker

    async def assign(self, tx: Tx, now: datetime) -> Assignments:
        """Claim tasks for the waiting workers, within the transaction.

        Workers that arrive meanwhile, and news from other servers of room or of a lane, may be too late for what was
        read: they are kept for the next try.
        """
        self._has_changed = False
        self._woken = set()
        if len(self._lanes) > MOST_LANES + 2 * len(self._ready):
            self.forget_lanes()
        assignments = Assignments(asked=list(self._waiting))
        await self._weigh(tx, assignments.asked)
        await self._find_waiting(tx)
        slots = self._slots.takers(self._lanes.jobs_of(self._ready), self._takes)
        demands: list[Demand] = [*filter(self._takes, assignments.asked), *slots]
        self._slots.rotate()
        try:
            for turn in range(MOST_ROUNDS):
                if not await self._hand_out(tx, assignments, demands, now, times=2**turn):
                    break
            await keep_keyed(tx, assignments, now)
        except BaseException:
            assignments.withdraw()
            raise
        return assignments

    async def _hand_out(
        self, tx: Tx, assignments: Assignments, demands: list[Demand], now: datetime, *, times: int
    ) -> bool:
        """Claim from the heads what the demands take, reading `times` as much of each lane as they ask for.

        Return whether limits shut out tasks that were read while a worker has room, so that reading on may find more.
        """
        wanted = self._lanes.may_be_served(self._ready, demands)
        limited = await self._read_heads(tx, wanted, demands, now, times) if wanted else None
        if limited is None:
            return False
        before = {head.lane.id: len(head.tasks) for head in limited}
        gate = await open_gate(tx, (task for head in limited for task in head.all_tasks), now)
        opened: set[int] = set()
        matched = match(self._orders, demands, gate)
        await self._claim(tx, assignments, matched, now)
        if gate is not None:
            decision = await close_gate(tx, gate, now)
            opened = decision.woken
            assignments.shifted |= decision.woken | decision.parked
            assignments.opens_at = sooner(assignments.opens_at, decision.opens_at)
        taken = Counter(task.lane for _, task in matched)
        taken |= {head.lane.id: before[head.lane.id] - len(head.tasks) for head in limited}
        self.head_cache.taken(taken)
        touched = [self._orders.heads[lane] for lane in taken]
        self._note_empty({head.lane.id for head in touched if head.is_all and not head.tasks})
        if assignments.given:
            self._has_changed = True
            if not tx.is_exclusive:
                # Only if something was claimed, or servers whose workers can't take the rest would wake each other.
                assignments.left = {lane for lane, head in self._orders.heads.items() if lane in wanted and head.tasks}
        self._ready |= opened
        assignments.left |= opened
        is_shut = gate is not None and bool(gate.shut)
        self._has_changed = self._has_changed or bool(opened) or is_shut
        return is_shut and any(demand.room() > 0 for demand in demands)

    def _note_empty(self, lanes: set[int]) -> None:
        """Note that nothing was claimable in these lanes, except those that were woken meanwhile."""
        self._ready -= lanes - self._woken

    async def _claim(self, tx: Tx, assignments: Assignments, matched: list[tuple[Demand, Task]], now: datetime) -> None:
        """Write the claims. Their targets need no new decision, because each had only this one claimable task."""
        moved: list[hot.Moved] = []
        for demand, task in matched:
            moved.append((task, task.version))
            life.claim(task, demand.worker_id, now)
            assignments.given[demand].append(task)
            assignments.changes.append(Change(task, Status.PENDING))
        counts = count_alike((task for _, task in matched), Status.PENDING)
        assignments.targets |= {task.target_num for _, task in matched if task.target_num is not None}
        assignments.counted.update(counts)
        await hot.claim(tx, moved, counts)

    async def _weigh(self, tx: Tx, asked: list[WaitingClaim]) -> None:
        """Read what the workers that claim over HTTP hold; the claims of one worker share one capacity (E5)."""
        limits: dict[WorkerId, Capacity] = {}
        for waiting in asked:
            if waiting.limit is not None:
                waiting.limit = limits.setdefault(waiting.worker_id, waiting.limit)
        await lock_claims(tx, limits.keys())
        for worker_id, weight in (await weights_held(tx, limits.keys())).items():
            limits[worker_id].weigh(weight, self._clock())

    async def _find_waiting(self, tx: Tx) -> None:
        """Find tasks that came before their job was served here: before a restart, or through another server."""
        if unseen := set(self._unseen_jobs):
            self._ready |= await waiting_lanes(tx)
            self._seen_jobs |= unseen
            self._unseen_jobs -= unseen

    async def _read_heads(
        self, tx: Tx, wanted: set[int], demands: list[Demand], now: datetime, times: int
    ) -> list[LaneHead] | None:
        """Read the heads of the wanted lanes as far as they are not known; return those whose tasks may have limits.

        Return None if nothing is claimable in any of the lanes.
        """
        found = await self._lanes.claimable(tx, wanted)
        # Lanes of paused and deleted jobs are woken when that changes.
        self._note_empty(wanted - found)
        # Some of the lanes that were not known may be served by none of the demands.
        served = self._lanes.served_by(demands) & found
        most = min(MOST_HEADS, times * sum(_most_wanted(demand) for demand in demands))
        cached_heads = await self.head_cache.fill(tx, served, most, now)
        self._note_empty({lane for lane, cached in cached_heads.items() if not cached.tasks})
        least = min(demand.capacity for demand in demands)
        heavy = {lane: cached for lane, cached in cached_heads.items() if cached.heaviest > least}
        capacities = {lane: capacities_for(self._lanes[lane].lane, demands) for lane in heavy}
        light = await behind(tx, heavy, capacities, most, now)
        changed = heavy | {lane: cached for lane, cached in cached_heads.items() if cached.is_changed}
        heads = [self._head(lane, cached, light.get(lane, {})) for lane, cached in changed.items()]
        self._orders.update(heads)
        # Lasting heads have no tasks with limits: they need not be searched for each claim.
        limited = [head for head in heads if head.light or not changed[head.lane.id].is_lasting]
        return limited if any(cached.tasks for cached in cached_heads.values()) else None

    def _head(self, lane: int, cached: CachedHead, light: dict[int, deque[Task]]) -> LaneHead:
        one = self._lanes[lane]
        cached.is_changed = False
        return LaneHead(one.lane, one.lane.room or one.room, cached.tasks, light, is_all=cached.is_all)

    def forget_lanes(self) -> None:
        """Forget what is known of lanes, because a job was changed or another writer may have changed something."""
        self._lanes.forget()
        self._orders.clear()
        self.head_cache.clear()

    def deliver(self, assignments: Assignments, at: float) -> list[Demand]:
        """Deliver the claims after the commit, at the monotonic instant `at`.

        Return the slots that were closed meanwhile.
        """
        closed: list[Demand] = []
        for demand, tasks in assignments.given.items():
            if isinstance(demand, WorkerSlot):
                self._holder.update(((task.id, task.run_id), demand) for task in tasks)
                if demand.open:
                    demand.begin(len(tasks), at)
                    demand.deliver(tasks)
                else:
                    closed.append(demand)
        for waiting in assignments.asked:
            claimed = assignments.given.get(waiting, [])
            if claimed or not waiting.patient:
                self.forget(waiting)
                if not waiting.answer.done():
                    waiting.answer.set_result(claimed)
        return closed


def _most_wanted(demand: Demand) -> int:
    """Return how many tasks the demand may take at most."""
    return min(demand.most - demand.taken, demand.room()) if isinstance(demand, WaitingClaim) else demand.room()
