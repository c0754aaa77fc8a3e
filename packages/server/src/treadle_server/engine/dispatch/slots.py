"""Who waits for tasks: workers on the socket, and claims over HTTP."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from treadle.wire.fields import MOST_WEIGHT
from treadle.wire.ids import WorkerId
from treadle_server.domain.tasks import ClaimKey, RunKey, Task
from treadle_server.engine.dispatch.presence import Presence
from treadle_server.store.base import Dialect

AHEAD = 0.1
"""Seconds of work that a worker may have before it begins it: more than from a report to the next claim.

Of a worker that is sooner done its pace is that of the way there and back, and so is what it gets: where that took 90
ms, with 0.05 s, it was given 400 tasks each time and waited for them for half of it. 10,000 that woke at once on
PostgreSQL went on within 2.1 s instead of 2.7, in turn; a drain took 208 us of processor time a task, not 234.
"""

LONGEST_WAY = 0.5
"""Seconds on its way there and back of which a worker is given work as well.

Of one that was 150 ms away the pace was that of the way: 2,000 short tasks, eight at once, took it 36 s on either
database, and take 18 on SQLite and 10 on PostgreSQL; fifty at once 6, and now 2.
"""

MOST_AHEAD: Mapping[Dialect, int] = {"sqlite": 4, "postgresql": 8}
"""How many times its concurrency that may be at most."""

REPORTS_AT_ONCE: Mapping[Dialect, int] = {"sqlite": 2, "postgresql": 8}
"""Requests with reports that a worker may have under way at most, so that the writer never waits for the next.

With two, what is out goes round in two flocks: while one is written the other waits, and PostgreSQL's server, backends
and worker used 1.5 of 2 cores in a drain, 1.6 with eight. SQLite is written by the server itself, which is busy with
two already: with eight a drain went 3 % faster, and what others asked took 0.2 to 0.4 s instead of 0.01 to 0.15.
"""

RECKONED = 0.05
"""Seconds over which a worker's pace is measured."""

FIRST_RECKONED = 0.005
"""Seconds over which it is measured when nothing is known of it yet, and enough has ended.

With 100,000 pending in 100 queues the first 3,000 started at 8,800 to 10,300 tasks/s on either database; with
`RECKONED` at 5,700 to 8,500, in turn three times each.
"""

ENOUGH = 16
"""The weight that must have ended before the first measure is believed so soon: at least this, and its concurrency."""


MOST_BYTES = 8 * 1024 * 1024
"""Characters of payloads and checkpoints that a worker is given at once: a hundred of a megabyte are not one burst."""


@dataclass(slots=True, eq=False)
class WorkerSlot:
    """A worker on the socket: as long as it has room, claims are delivered to it."""

    worker_id: WorkerId
    jobs: frozenset[int]
    """Numbers of the jobs it serves."""
    pool: str | None
    concurrency: int
    min_concurrency: int
    prefetch: int | None
    """The most weight beyond the concurrency; None: as much as the worker ends in `AHEAD` seconds and on the way."""
    deliver: Callable[[list[Task]], None]
    """Called after the commit; must not raise."""
    most_bytes: int = MOST_BYTES
    """Characters that it is given at once; the task that reaches them is the last one."""
    is_crowded: Callable[[], bool] = lambda: False
    """Whether so much of what was delivered still waits to be sent that it is given nothing more."""
    most_ahead: int = MOST_AHEAD["sqlite"]
    """How many times its concurrency it may have ahead at most."""
    held: dict[RunKey, int] = field(default_factory=dict)
    """The weight of each run that it holds."""
    presence: Presence = field(default_factory=Presence)
    busy_since: float = 0.0
    """When it was given the first of what it holds, by the monotonic clock."""
    draining: bool = False
    open: bool = True
    used: int = 0
    """The weight of what it holds."""
    ahead: int = 0
    """The weight that is claimed ahead, so that short tasks never wait for a round trip; long ones are not hoarded."""
    _bytes: int = 0
    """Characters that the transaction under way gives it."""
    _rate: float | None = None
    """Weight that it ends in a second; None: not known yet."""
    _ended: int = 0
    _since: float | None = None
    _sent_at: float | None = None
    """When it was given something while it had nothing, until it says anything."""
    _way: float = 0.0
    """Seconds from there until it said that it had begun."""

    def hold(self, held: dict[RunKey, int]) -> None:
        """Note what the worker held when it came."""
        self.held = held
        self.used = sum(held.values())

    @property
    def capacity(self) -> int:
        """Return the most weight of one task; a heavier one is left for a bigger worker (E5)."""
        return self.concurrency

    def owes(self, at: float, lost_after: float) -> bool:
        """Return whether it owes a heartbeat at the monotonic instant `at`."""
        return self.presence.owes(at, lost_after, busy_since=self.busy_since if self.held else None)

    def room(self) -> int:
        """Return how much more weight it asks for; with `min_concurrency`, nothing until it holds less than that."""
        if (self.min_concurrency and self.used >= self.min_concurrency) or self.is_crowded():
            return 0
        return self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asked for any: until the transaction under way is over."""
        if self.draining or not self.open or self._bytes >= self.most_bytes:
            return 0
        return self.concurrency + (self.ahead if self.prefetch is None else self.prefetch) - self.used

    def begin(self, given: int, at: float) -> None:
        """Note that so many tasks were delivered: of one who had none for a while, the pace is measured from now on.

        Measured from its first ends instead, a worker was given its second hundred of short tasks a round later, and
        one that had waited for work seemed slow.
        """
        self._bytes = 0
        if len(self.held) > given:
            return
        self.busy_since = self._sent_at = at
        if self._since is None or at - self._since > 2 * RECKONED:
            self._ended, self._since = 0, at

    def heard(self, at: float) -> None:
        """Note that a report of its has come: the first one behind what it was given tells how long the way is."""
        if self._sent_at is not None:
            self._way, self._sent_at = min(at - self._sent_at, LONGEST_WAY), None

    def reckon(self, at: float) -> None:
        """Reckon from what was ended lately how much may be claimed ahead."""
        if self._since is None:
            self._ended, self._since = 0, at
        passed = at - self._since
        is_early = self._rate is None and self._ended >= max(self.concurrency, ENOUGH)
        if passed < (FIRST_RECKONED if is_early else RECKONED):
            return
        pace = self._ended / passed
        # What was before counts half after `RECKONED`: who was quick and has been at something long has no pace left.
        before = 0.5 ** (passed / RECKONED)
        self._rate = pace if self._rate is None else before * self._rate + (1 - before) * pace
        self._ended, self._since = 0, at
        wanted = int(self._rate * (AHEAD + self._way))
        self.ahead = 0 if self.min_concurrency else min(wanted, self.most_ahead * self.concurrency)

    def reserve(self, task: Task) -> None:
        """Note that the task's next run will be its own."""
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
        """Take back that a run of this weight was released: its end was not committed, and is no sign of pace."""
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
    """What a worker takes over HTTP; shared by all claims that it has waiting."""

    concurrency: int
    min_concurrency: int
    used: int = 0
    """The weight of what it holds, as the store says when tasks are handed out, and of what it was given since."""
    busy_since: float | None = None
    """Since when it holds something, by the monotonic clock; None when it holds nothing, or was not weighed yet."""
    is_weighed: bool = False

    def weigh(self, used: int, at: float) -> None:
        """Note what it holds, as the store says at the monotonic instant `at`."""
        self.used = used
        if not used:
            self.busy_since = None
        elif self.busy_since is None:
            # What it holds when it is weighed first it had when it asked.
            self.busy_since = at if self.is_weighed else float("-inf")
        self.is_weighed = True

    def room(self) -> int:
        """Return how much more weight it asks for, as `WorkerSlot.room`."""
        return 0 if self.min_concurrency and self.used >= self.min_concurrency else self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asked for any."""
        return max(0, self.concurrency - self.used)


@dataclass(slots=True, eq=False)
class WaitingClaim:
    """A claim over HTTP: answered once, with as many tasks as there are, up to `most`."""

    worker_id: WorkerId
    jobs: frozenset[int]
    pool: str | None
    most: int
    answer: asyncio.Future[list[Task]]
    patient: bool
    """Whether it waits for tasks to come; otherwise the next batch answers it."""
    limit: Capacity | None = None
    """None when the worker never named its concurrency."""
    draining: bool = False
    key: ClaimKey | None = None
    """Under which what it is given is kept for it, whether its caller is still there or not."""
    taken: int = 0
    presence: Presence = field(default_factory=Presence)
    _bytes: int = 0
    """Characters of what it was given."""

    @property
    def capacity(self) -> int:
        """Return the most weight that the worker may ever hold: any, if it never named its concurrency."""
        return MOST_WEIGHT if self.limit is None else self.limit.concurrency

    def owes(self, at: float, lost_after: float) -> bool:
        """Return whether its worker owes a heartbeat at the monotonic instant `at`.

        Of an older client, whose capacity is not known, it isn't known either whether it runs something.
        """
        return self.presence.owes(at, lost_after, busy_since=None if self.limit is None else self.limit.busy_since)

    def room(self) -> int:
        """Return how much more weight it asks for."""
        return 0 if self.limit is not None and self.limit.room() <= 0 else self.spare()

    def spare(self) -> int:
        """Return how much more weight it can take, once it asked for any."""
        if self.taken >= self.most or self._bytes >= MOST_BYTES or self.draining or self.answer.done():
            return 0
        return MOST_WEIGHT if self.limit is None else self.limit.spare()

    def reserve(self, task: Task) -> None:
        """Note that the task's next run will be its own."""
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
