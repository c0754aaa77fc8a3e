"""What waits for tasks: workers on the socket, and claims over HTTP."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from treadle.wire.fields import MOST_WEIGHT
from treadle.wire.ids import WorkerId
from treadle_server.domain.tasks import ClaimKey, RunKey, Task
from treadle_server.engine.dispatch.presence import Presence
from treadle_server.store.base import Dialect

AHEAD = 0.1
"""Seconds of work that a worker may be given in advance: longer than from a report to the next claim.

A worker that finishes earlier is paced by the round trip, and is given no more than that: when the round trip took 90
ms, with 0.05 s here, it was given 400 tasks each time and spent half of the time waiting for them. With 0.1 s, 10,000
tasks that woke at once on PostgreSQL went on within 2.1 s instead of 2.7, in alternating runs; a drain took 208 us of
processor time a task instead of 234.
"""

LONGEST_ROUND_TRIP = 0.5
"""The longest round trip, in seconds, for which a worker is given additional work.

Without this a worker 150 ms away was paced by the round trip: 2,000 short tasks, eight at once, took it 36 s on either
database, and now take 18 s on SQLite and 10 s on PostgreSQL; fifty at once took 6 s, and now take 2.
"""

MOST_AHEAD: Mapping[Dialect, int] = {"sqlite": 4, "postgresql": 8}
"""The most weight that may be claimed ahead, as a multiple of the worker's concurrency."""

REPORTS_AT_ONCE: Mapping[Dialect, int] = {"sqlite": 2, "postgresql": 8}
"""How many requests with reports a worker may have in flight, so that the writer never waits for the next.

With two, the runs form two groups, one of which waits while the other is written: in a drain on PostgreSQL the server,
backends and worker used 1.5 of 2 cores, and 1.6 with eight. SQLite is written by the server itself, which two keep
busy: with eight a drain was 3 % faster, but other requests took 0.2 to 0.4 s instead of 0.01 to 0.15.
"""

PACE_SECONDS = 0.05
"""Seconds over which a worker's pace is measured."""

FIRST_PACE_SECONDS = 0.005
"""Seconds over which a pace that is not known yet is measured, once enough has ended.

With 100,000 pending in 100 queues the first 3,000 started at 8,800 to 10,300 tasks/s on either database; with
`PACE_SECONDS` at 5,700 to 8,500, in three alternating runs each.
"""

ENOUGH = 16
"""The weight that must have ended for such an early measurement, or the worker's concurrency if that is more."""


MOST_BYTES = 8 * 1024 * 1024
"""Characters of payloads and checkpoints that a worker is given at once, so that large ones don't come in one burst."""


@dataclass(slots=True, eq=False)
class WorkerSlot:
    """A worker on the socket, to which claims are delivered as long as it has room."""

    worker_id: WorkerId
    jobs: frozenset[int]
    """Numbers of the jobs that it serves."""
    pool: str | None
    concurrency: int
    min_concurrency: int
    prefetch: int | None
    """The most weight beyond its concurrency; None: as much as it ends in `AHEAD` seconds and during a round trip."""
    deliver: Callable[[list[Task]], None]
    """Called after the commit; must not raise."""
    most_bytes: int = MOST_BYTES
    """Characters that it is given at once; the task that reaches this bound is the last one."""
    is_crowded: Callable[[], bool] = lambda: False
    """Whether so much that was delivered still waits to be sent that the worker must get nothing more."""
    most_ahead: int = MOST_AHEAD["sqlite"]
    """The bound of `ahead`, as a multiple of its concurrency."""
    held: dict[RunKey, int] = field(default_factory=dict)
    """The weight of each run that it holds."""
    presence: Presence = field(default_factory=Presence)
    busy_since: float = 0.0
    """When it was given the first of the runs that it holds, by the monotonic clock."""
    draining: bool = False
    open: bool = True
    used: int = 0
    """The weight of what it holds."""
    ahead: int = 0
    """The weight to claim ahead, so that short tasks never wait for a round trip and long ones are not hoarded."""
    _bytes: int = 0
    """Characters that the current transaction gives it."""
    _rate: float | None = None
    """Its pace: the weight that it ends per second; None if not known yet."""
    _ended: int = 0
    _since: float | None = None
    _sent_at: float | None = None
    """When it was given tasks while it had none, until its next report."""
    _round_trip: float = 0.0
    """Seconds from then to that report: the round trip."""

    def hold(self, held: dict[RunKey, int]) -> None:
        """Note what the worker held when it connected."""
        self.held = held
        self.used = sum(held.values())

    @property
    def capacity(self) -> int:
        """Return the most weight that one task may have; a heavier one is left for a bigger worker (E5)."""
        return self.concurrency

    def owes(self, at: float, lost_after: float) -> bool:
        """Return whether it owes a heartbeat at the monotonic instant `at`."""
        return self.presence.owes(at, lost_after, busy_since=self.busy_since if self.held else None)

    def room(self) -> int:
        """Return how much more weight it asks for; with `min_concurrency`, none until it holds less than that."""
        if (self.min_concurrency and self.used >= self.min_concurrency) or self.is_crowded():
            return 0
        return self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take within the current transaction, once it asks for any."""
        if self.draining or not self.open or self._bytes >= self.most_bytes:
            return 0
        return self.concurrency + (self.ahead if self.prefetch is None else self.prefetch) - self.used

    def begin(self, given: int, at: float) -> None:
        """Note that `given` tasks were delivered. After a while without any, the pace is measured from now on.

        If it was measured from the first ends instead, a worker got its second hundred of short tasks a round trip
        later, and one that had waited for work seemed slow.
        """
        self._bytes = 0
        if len(self.held) > given:
            return
        self.busy_since = self._sent_at = at
        if self._since is None or at - self._since > 2 * PACE_SECONDS:
            self._ended, self._since = 0, at

    def note_report(self, at: float) -> None:
        """Note that a report has arrived; the first one after a delivery shows how long a round trip takes."""
        if self._sent_at is not None:
            self._round_trip, self._sent_at = min(at - self._sent_at, LONGEST_ROUND_TRIP), None

    def update_pace(self, at: float) -> None:
        """Update the pace from the weight that ended lately, and with it how much may be claimed ahead."""
        if self._since is None:
            self._ended, self._since = 0, at
        passed = at - self._since
        is_early = self._rate is None and self._ended >= max(self.concurrency, ENOUGH)
        if passed < (FIRST_PACE_SECONDS if is_early else PACE_SECONDS):
            return
        pace = self._ended / passed
        # Earlier paces count half after `PACE_SECONDS`: a quick worker that now runs something long loses its pace.
        before = 0.5 ** (passed / PACE_SECONDS)
        self._rate = pace if self._rate is None else before * self._rate + (1 - before) * pace
        self._ended, self._since = 0, at
        wanted = int(self._rate * (AHEAD + self._round_trip))
        self.ahead = 0 if self.min_concurrency else min(wanted, self.most_ahead * self.concurrency)

    def reserve(self, task: Task) -> None:
        """Note that the worker gets the task's next run."""
        self.held[task.id, task.run_id + 1] = task.weight
        self.used += task.weight
        self._bytes += _size_of(task)

    def release(self, key: RunKey) -> int:
        """Note that the run's code has ended; return its weight."""
        weight = self.held.pop(key, 0)
        self.used -= weight
        self._ended += weight
        return weight

    def hold_again(self, key: RunKey, weight: int) -> None:
        """Undo the release of a run of this weight: its end was not committed, and must not count for the pace."""
        self.held[key] = weight
        self.used += weight
        self._ended -= weight

    def withdraw(self, keys: list[RunKey]) -> None:
        """Forget claims that were not committed."""
        self._bytes = 0
        for key in keys:
            self.used -= self.held.pop(key, 0)


@dataclass(slots=True, eq=False)
class Capacity:
    """How much a worker takes over HTTP, shared by all of its waiting claims."""

    concurrency: int
    min_concurrency: int
    used: int = 0
    """The weight of what it holds, according to the store when tasks are handed out, and of what it was given since."""
    busy_since: float | None = None
    """Since when it holds something, by the monotonic clock; None if it holds nothing or was not weighed yet."""
    is_weighed: bool = False

    def weigh(self, used: int, at: float) -> None:
        """Note the weight that it holds according to the store at the monotonic instant `at`."""
        self.used = used
        if not used:
            self.busy_since = None
        elif self.busy_since is None:
            # What it holds when it is first weighed, it already held when it asked.
            self.busy_since = at if self.is_weighed else float("-inf")
        self.is_weighed = True

    def room(self) -> int:
        """Return how much more weight it asks for, like `WorkerSlot.room`."""
        return 0 if self.min_concurrency and self.used >= self.min_concurrency else self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asks for any."""
        return max(0, self.concurrency - self.used)


@dataclass(slots=True, eq=False)
class WaitingClaim:
    """A claim over HTTP, which is answered once with the available tasks, up to `most`."""

    worker_id: WorkerId
    jobs: frozenset[int]
    pool: str | None
    most: int
    answer: asyncio.Future[list[Task]]
    patient: bool
    """Whether it waits for tasks; otherwise the next batch answers it."""
    limit: Capacity | None = None
    """None if the worker never gave its concurrency."""
    draining: bool = False
    key: ClaimKey | None = None
    """The key under which its tasks are kept for the worker, even if the caller has gone."""
    taken: int = 0
    presence: Presence = field(default_factory=Presence)
    _bytes: int = 0
    """Characters of the payloads and checkpoints that it was given."""

    @property
    def capacity(self) -> int:
        """Return the most weight that the worker may ever hold: any weight, if it never gave its concurrency."""
        return MOST_WEIGHT if self.limit is None else self.limit.concurrency

    def owes(self, at: float, lost_after: float) -> bool:
        """Return whether its worker owes a heartbeat at the monotonic instant `at`.

        An older client gives no concurrency, so it isn't known whether it runs something; it counts as idle.
        """
        return self.presence.owes(at, lost_after, busy_since=None if self.limit is None else self.limit.busy_since)

    def room(self) -> int:
        """Return how much more weight it asks for."""
        return 0 if self.limit is not None and self.limit.room() <= 0 else self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asks for any."""
        if self.taken >= self.most or self._bytes >= MOST_BYTES or self.draining or self.answer.done():
            return 0
        return MOST_WEIGHT if self.limit is None else self.limit.spare()

    def reserve(self, task: Task) -> None:
        """Note that the claim gets the task's next run."""
        self.taken += 1
        self._bytes += _size_of(task)
        if self.limit is not None:
            self.limit.used += task.weight

    def withdraw(self, keys: list[RunKey]) -> None:
        """Forget claims that were not committed."""
        self.taken -= len(keys)
        self._bytes = 0


def _size_of(task: Task) -> int:
    return len(task.payload) + len(task.checkpoint or "")


Demand = WorkerSlot | WaitingClaim
