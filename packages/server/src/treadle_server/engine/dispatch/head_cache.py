"""Claimable tasks that were read but not handed out, lane by lane; they are kept for the next claim.

A claim among a hundred queues takes a few tasks of each. Reading every queue's head again each time made such a drain
twenty times as slow as that of one queue. The cache is never stale: new tasks are inserted in their places, any other
change of a lane's order drops the lane, and another writer drops everything (`Cache`); where other servers claim too,
nothing is kept from one transaction to the next.
"""

import logging
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil

from sqlalchemy.exc import SQLAlchemyError

from treadle_server.domain.tasks import Task, copy_of
from treadle_server.engine.dispatch.fairness import queue_key
from treadle_server.store.base import Tx
from treadle_server.store.failures import described
from treadle_server.store.transaction.heads import heads, heads_after

log = logging.getLogger(__name__)

MOST_OF_LANE = 1000
"""How many tasks of one lane are read and kept at most."""

MOST_FOLLOWED = 10_000
"""How many tasks of one lane are kept at most when others are added at its end, as when many wake at once.

Reading them instead costs the server 12 microseconds each, and PostgreSQL 5.
"""

MOST_BYTES = 1024 * 1024
"""How many characters of payloads are kept of one lane; larger ones are read when they are claimed."""

MOST = 20_000
"""How many tasks are kept in all, about 30 MB without payloads, or `LEAST_OF_LANE` of each lane if that is more."""

LEAST_OF_LANE = 4
"""How many tasks of each lane are kept, however many lanes there are: a claim may leave one, and two are read after it.

With fewer, each claim among ten thousand queues read all of them: 60,000 tasks in 9,990 queues went at 900 a second.
"""

MOST_BYTES_IN_ALL = 32 * MOST_BYTES
"""How many characters of payloads are kept in all."""

FIRST_READ = 16
"""How many tasks are read of a lane whose payload sizes are not known: they may be a megabyte each."""

MOST_READ = 4 * MOST_BYTES
"""How many characters of payloads are read of one lane at once, estimated from its last tasks."""

MOST_LANES = 20_000
"""Of how many lanes it is remembered how large their payloads are and how much was claimed of them."""

PARTS = 8
"""To how many different depths lanes are read together, so that they don't all run short at the same time again."""

LEAST_READ = 8
"""The fewest tasks that are read of a lane at once, where more are kept than the next claim takes."""


@dataclass(slots=True)
class CachedHead:
    """The head of a lane, in the order of its queue."""

    tasks: deque[Task] = field(default_factory=deque)
    last: Task | None = None
    """The task that was last added at the end, even if it has been handed out."""
    is_all: bool = True
    """Whether the lane has no other claimable tasks."""
    heaviest: int = 0
    until: datetime | None = None
    """The earliest deadline of its tasks."""
    size: int = 0
    """Characters of the payloads, including those that were handed out since the lane was read."""
    is_lasting: bool = True
    """Whether it may be kept for the next claim: not with tasks that targets or limits can block and free."""
    wanted: int = 0
    """How many tasks the last claim might have taken of it."""
    is_changed: bool = True
    """Whether it has changed since the last claim."""

    @property
    def is_short(self) -> bool:
        """Whether the claim after the next one would find too few tasks in it, though there are more to be read."""
        return bool(self.tasks) and not self.is_all and self.is_lasting and len(self.tasks) < 2 * self.wanted

    def add(self, task: Task) -> None:
        """Add a task at the end."""
        self.tasks.append(task)
        self.last = task
        self._note(task)

    def insert(self, task: Task) -> None:
        """Insert a task in its place before the last one."""
        self.tasks.insert(bisect(self.tasks, queue_key(task), key=queue_key), task)
        self._note(task)

    def _note(self, task: Task) -> None:
        self.is_changed = True
        self.heaviest = max(self.heaviest, task.weight)
        self.size += len(task.payload)
        self.is_lasting = self.is_lasting and not task.stands_in_line and self.size <= MOST_BYTES
        if task.deadline is not None:
            self.until = task.deadline if self.until is None else min(self.until, task.deadline)

    def extend(self, tasks: Sequence[Task], *, is_all: bool) -> None:
        """Add at the end the tasks that were read from behind it."""
        self.size = sum(len(task.payload) for task in self.tasks)
        self.is_all, self.is_changed = is_all, True
        for task in tasks:
            self.add(task)

    def is_in_time(self, now: datetime) -> bool:
        """Return whether no task in it is past its deadline."""
        return self.until is None or self.until > now

    def hides(self, capacity: int) -> bool:
        """Return whether all of its tasks are too heavy for this capacity, and there may be others behind them."""
        return not self.is_all and self.heaviest > capacity and all(task.weight > capacity for task in self.tasks)


class HeadCache:
    """The known heads of the lanes."""

    def __init__(self) -> None:
        self._heads: dict[int, CachedHead] = {}
        self._parts: dict[int, float] = {}
        """What part of its last claim came from each lane: one that is ahead of others needs more than its share."""
        self._sizes: dict[int, int] = {}
        """The average number of characters of a payload in each lane, when it was last read."""
        self._asked: AbstractSet[int] = frozenset()
        """The lanes of the last claim."""
        self._has_grown = False
        """Whether the cache may have grown since its size was last checked."""

    def clear(self) -> None:
        """Forget everything, because a transaction failed or another writer has written."""
        self._heads.clear()
        if len(self._sizes) > MOST_LANES:
            self._sizes.clear()
            self._parts.clear()

    def drop(self, lanes: Iterable[int]) -> None:
        """Forget lanes whose order has changed."""
        for lane in lanes:
            self._heads.pop(lane, None)

    def look_again(self, lanes: Iterable[int]) -> None:
        """Forget those of the lanes that are known to be empty, because there may be tasks in them by now."""
        self.drop([lane for lane in lanes if (cached := self._heads.get(lane)) is not None and not cached.tasks])

    def add(self, new: Iterable[Task]) -> None:
        """Insert tasks that now wait in their lanes: new ones, and those that slept.

        An urgent task is inserted before others. When the queue was read again for each urgent task instead, a hundred
        of them a second made a drain an eighth slower.
        """
        followed: set[int] = set()
        for task in new:
            cached = self._heads.get(task.lane)
            if cached is None:
                continue
            is_last = not cached.tasks or queue_key(cached.tasks[-1]) < queue_key(task)
            is_full = len(cached.tasks) >= MOST_FOLLOWED
            # A task that a target may block is never added, not even to be dropped at once: the service order shares
            # the deque, and would hand it out.
            if task.stands_in_line or (is_full and not is_last):
                del self._heads[task.lane]
            elif is_last and not cached.is_all:
                continue
            elif is_full:
                cached.is_all, cached.is_changed = False, True
            else:
                # A copy, because the submitter gets the task as it was before its claim.
                (cached.add if is_last else cached.insert)(copy_of(task))
                followed.add(task.lane)
        self._has_grown = self._has_grown or bool(followed)
        self._drop_not_lasting(followed & self._heads.keys())

    async def fill(self, tx: Tx, lanes: AbstractSet[int], most: int, now: datetime) -> Mapping[int, CachedHead]:
        """Return the heads of the lanes for a claim of up to `most` tasks."""
        if not lanes:
            return {}
        self._asked = lanes
        share = min(most, -(-most // len(lanes)) + 1)
        ahead = {lane: min(most, max(share, ceil(1.25 * most * part))) for lane, part in self._parts.items()}
        found: dict[int, CachedHead] = {}
        short: list[int] = []
        for lane in lanes:
            cached = self._heads.get(lane)
            wanted = ahead.get(lane, share)
            if cached is not None and cached.is_in_time(now) and (cached.is_all or len(cached.tasks) >= wanted):
                cached.wanted = max(cached.wanted, wanted)
                found[lane] = cached
            else:
                short.append(lane)
        if short:
            wanted = max(ahead.get(lane, share) for lane in short)
            room = self._room() // len(short)
            # Where nothing is kept, each row that is read in vain is also locked in vain.
            depth = max(wanted, min(max(LEAST_READ, 4 * wanted), room)) if tx.is_exclusive else wanted
            parts = PARTS if tx.is_exclusive and min(len(short), depth) >= PARTS else 1
            for part in range(parts):
                found |= await self._read(tx, short[part::parts], depth + depth * part // parts, most, now)
            self._has_grown = True
            for lane in short:
                found[lane].wanted = max(found[lane].wanted, ahead.get(lane, share))
        return found

    def _room(self) -> int:
        """Return how many more tasks may be kept."""
        return MOST - sum(len(one.tasks) for one in self._heads.values())

    def _is_kept(self, lane: int, now: datetime) -> bool:
        """Return whether the rest of the lane's head is still valid, with room to keep as much more as claims take."""
        cached = self._heads.get(lane)
        if cached is None or not cached.tasks or not cached.is_in_time(now):
            return False
        more = self._more(lane, cached)
        return more >= LEAST_READ and more + len(cached.tasks) >= cached.wanted

    @property
    def runs_short(self) -> bool:
        """Whether a lane of the last claim has too few tasks for the claim after the next one."""
        return bool(self._short())

    async def read_ahead(self, beside: Tx | None, now: datetime) -> None:
        """Read on behind lanes that run short, while a batch that adds no tasks is being written.

        The next batch is applied meanwhile: it takes tasks from the front, and adds none before this has ended. Only
        the exclusive writer on PostgreSQL does so, and only if no earlier batch is being written; elsewhere `beside`,
        the connection to read with, is None. If reading fails, the next claim reads instead, and raises the error.

        With 100,000 pending the first 3,000 of a queue start at 10,700 to 11,800 tasks/s, and without it at 7,600 to
        10,300, in three alternating runs each. A whole drain is as fast without it, for 4 % less processor time.
        """
        short = self._short()
        if short and beside is not None and beside.is_exclusive:
            most = min(4 * max(cached.wanted for cached in short.values()), self._room() // len(short))
            if most <= 0:
                return
            try:
                await self._read_on(beside, short, most, now)
            except (SQLAlchemyError, OSError) as error:
                log.info("could not read ahead in the queues: %s", described(error))

    async def _read_on(self, tx: Tx, short: Mapping[int, CachedHead], most: int, now: datetime) -> None:
        """Read up to `most` more tasks behind each of the lanes, but no more than can be kept.

        If two calls read on from the same place, one ahead and one for a claim, the second discards its result.
        """
        most = min(most, *(self._more(*one) for one in short.items()))
        last = {lane: cached.tasks[-1] for lane, cached in short.items()}
        read = await heads_after(tx, last, most, now)
        for lane, tasks in read.items():
            if self._heads.get(lane) is short[lane] and short[lane].last is last[lane]:
                short[lane].extend(tasks, is_all=len(tasks) < most)
                self._has_grown = True
                self._drop_not_lasting([lane])

    def _short(self) -> dict[int, CachedHead]:
        """Return the lanes that run short and have room for enough tasks to be worth a statement."""
        asked = ((lane, self._heads.get(lane)) for lane in self._asked)
        short = {lane: cached for lane, cached in asked if cached and cached.is_short}
        return {lane: cached for lane, cached in short.items() if self._more(lane, cached) >= LEAST_READ}

    def _more(self, lane: int, cached: CachedHead) -> int:
        """Return how many more tasks of the lane may be kept."""
        left = MOST_BYTES - sum(len(task.payload) for task in cached.tasks)
        return min(MOST_OF_LANE - len(cached.tasks), left // max(1, self._sizes.get(lane, MOST_BYTES)))

    def _drop_not_lasting(self, lanes: Iterable[int]) -> None:
        """Forget those of the lanes that are not lasting."""
        self.drop([lane for lane in lanes if not self._heads[lane].is_lasting])

    def taken(self, lanes: Mapping[int, int]) -> None:
        """Note how many tasks the last claim took of each lane."""
        total = sum(lanes.values())
        for lane in self._parts.keys() & self._asked:
            del self._parts[lane]
        self._parts.update((lane, count / total) for lane, count in lanes.items() if count)
        if self._has_grown:
            self._has_grown = False
            cached_heads = self._heads.values()
            if (
                self._room() < min(0, MOST - LEAST_OF_LANE * len(self._asked))
                or sum(one.size for one in cached_heads) > MOST_BYTES_IN_ALL
            ):
                self.clear()

    async def _read(
        self, tx: Tx, lanes: Collection[int], depth: int, most: int, now: datetime
    ) -> dict[int, CachedHead]:
        """Read the heads of the lanes to the same depth, as far as the size of their payloads allows.

        That is no more than the claim takes, except for a lane whose last stock ran short without being dropped: what
        is read beyond the claim is kept for the next ones, and saves each of them a statement. The rest of such a stock
        is kept, and reading goes on behind it.
        """
        short = {lane: self._heads[lane] for lane in lanes if tx.is_exclusive and self._is_kept(lane, now)}
        if short:
            await self._read_on(tx, short, depth, now)
        read = {lane: cached for lane, cached in short.items() if self._heads.get(lane) is cached}
        alike: dict[int, list[int]] = defaultdict(list)
        for lane in lanes:
            if lane in read:
                continue
            bound = MOST_OF_LANE if tx.is_exclusive and lane in self._heads else most
            alike[min(depth, bound, self._most_readable(lane))].append(lane)
        for deep, several in alike.items():
            for lane, tasks in (await heads(tx, several, deep, now)).items():
                cached = read[lane] = CachedHead(is_all=len(tasks) < deep)
                for task in tasks:
                    cached.add(task)
                if tasks:
                    self._sizes[lane] = cached.size // len(tasks)
                self._heads.pop(lane, None)
                if cached.is_lasting:
                    self._heads[lane] = cached
        return read

    def _most_readable(self, lane: int) -> int:
        """Return how many tasks of the lane may be read at once, given the size of their payloads."""
        size = self._sizes.get(lane)
        return FIRST_READ if size is None else max(1, MOST_READ // max(1, size))


async def behind(
    tx: Tx, cached_heads: Mapping[int, CachedHead], capacities: Mapping[int, Collection[int]], most: int, now: datetime
) -> dict[int, dict[int, deque[Task]]]:
    """Return up to `most` tasks behind each head that is too heavy for some of the demands, by lane and capacity.

    Tasks that are too heavy for a worker must not hide those that are not, however many there are (E5). `capacities`
    are those of the demands that each lane serves.
    """
    found: dict[int, dict[int, deque[Task]]] = defaultdict(dict)
    for capacity in {capacity for several in capacities.values() for capacity in several}:
        hidden = [
            lane for lane, cached in cached_heads.items() if capacity in capacities[lane] and cached.hides(capacity)
        ]
        if hidden:
            for lane, tasks in (await heads(tx, hidden, most, now, capacity)).items():
                found[lane][capacity] = deque(tasks)
    return found
