"""Who gets which task: in the order of each queue, in turn between jobs and rooms within a priority (L9)."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from itertools import chain

from treadle_server.domain.jobs import Lane
from treadle_server.domain.limits import Gate
from treadle_server.domain.tasks import Task
from treadle_server.engine.dispatch.slots import Demand

Group = tuple[int, str]
"""A job and, when it is fair between rooms, the room: within it the order is strict."""

GroupKey = tuple[int, int, int]
"""A group's place among its room's: least urgent last, then who was served longest ago, then who came first."""

RoomKey = tuple[int, int, int, int]
"""A room's place: the urgency of its first group, when the room was served, and what tells equals apart."""


@dataclass(slots=True)
class Turns:
    """Who was served when: the least recently served goes first."""

    count: int = 0
    rooms: dict[str, int] = field(default_factory=dict)
    groups: dict[Group, int] = field(default_factory=dict)

    def served(self, room: str, group: Group) -> None:
        """Note that a task of the room and group was handed out: both are last in turn now."""
        self.count += 1
        self.rooms[room] = self.count
        self.groups[group] = self.count


@dataclass(slots=True)
class LaneHead:
    """A lane's claimable head."""

    lane: Lane
    room: str
    """The room whose turn it is: the lane's in a fair job, else the job's."""
    tasks: deque[Task]
    light: dict[int, deque[Task]] = field(default_factory=dict)
    """By capacity: where all `tasks` are too heavy for it, those behind them that are not."""
    is_all: bool = True
    """Whether there are no more claimable tasks in the lane than these."""
    may_have_limits: bool = True
    """Whether tasks that count against limits may be among them."""
    taken: int = 0
    """How many of `tasks` were taken out."""
    group: Group = field(init=False)
    """Within it the order is strict."""

    def __post_init__(self) -> None:
        self.group = (self.lane.job_num, self.lane.room)

    @property
    def all_tasks(self) -> Iterator[Task]:
        """Return its tasks, and those that stand behind them for some."""
        return chain(self.tasks, *self.light.values())

    def first(self, capacity: int) -> Task | None:
        """Return the first task that is not heavier than `capacity`."""
        for task in self.light.get(capacity, self.tasks):
            if task.weight <= capacity:
                return task
        return None

    def is_dry(self, capacities: Collection[int]) -> bool:
        """Return whether more is to be read before workers of all these capacities know what comes first."""
        return any(c not in self.light and self.first(c) is None for c in capacities)

    def take(self, task: Task) -> None:
        """Take the task out."""
        if self.tasks[0] is task:
            self.tasks.popleft()
            self.taken += 1
            return
        for tasks in (self.tasks, *self.light.values()):
            for i, other in enumerate(tasks):
                if other.seq == task.seq:
                    del tasks[i]
                    self.taken += tasks is self.tasks
                    break


def _in_queue(task: Task) -> tuple[int, datetime, int]:
    return (-task.priority, task.due_at, task.seq)


def serves(jobs: Collection[int], pool: str | None, lane: Lane) -> bool:
    """Return whether who serves these jobs, in this pool, takes tasks of the lane: it has no pool, or the same."""
    return lane.job_num in jobs and (not lane.pool or lane.pool == pool)


def capacities_for(lane: Lane, demands: Iterable[Demand]) -> set[int]:
    """Return the capacities of those of the demands that are served from the lane."""
    return {demand.capacity for demand in demands if serves(demand.jobs, demand.pool, lane)}


class ServiceOrder:
    """The heads of the lanes that demands of one kind serve, in the order in which they are served.

    A heap of rooms, and in each a heap of groups. Only who was served moves, and always back: so an entry is looked
    at anew when it comes to the top, and a pick among n groups costs O(log n), with any number of jobs.
    """

    def __init__(self, heads: Iterable[LaneHead], capacity: int, turns: Turns) -> None:
        self._capacity = capacity
        self._turns = turns
        self._only: LaneHead | None = None
        """The only head, when there is but one: then there are no turns to take."""
        self._heads: dict[Group, list[LaneHead]] = defaultdict(list)
        self._groups: dict[str, list[tuple[GroupKey, Group]]] = defaultdict(list)
        for head in heads:
            self._heads[head.group].append(head)
        if len(self._heads) == 1 and len(members := next(iter(self._heads.values()))) == 1:
            self._only = members[0]
            return
        for group, members in self._heads.items():
            if (key := self._key(group)) is not None:
                self._groups[members[0].room].append((key, group))
        for groups in self._groups.values():
            heapify(groups)
        self._rooms = [(place, room) for room in self._groups if (place := self._room_key(room)) is not None]
        heapify(self._rooms)

    def first(self) -> tuple[LaneHead, Task] | None:
        """Return the task whose turn it is, and the head it stands in."""
        if self._only is not None:
            return self._first_of(self._only)
        while self._rooms:
            key, room = self._rooms[0]
            now = self._room_key(room)
            if now is None:
                heappop(self._rooms)
            elif now != key:
                heapreplace(self._rooms, (now, room))
            else:
                return self._first_in_group(self._groups[room][0][1])
        return None

    def _room_key(self, room: str) -> RoomKey | None:
        groups = self._groups[room]
        while groups:
            key, group = groups[0]
            now = self._key(group)
            if now is None:
                heappop(groups)
            elif now != key:
                heapreplace(groups, (now, group))
            else:
                return (key[0], self._turns.rooms.get(room, 0), key[1], key[2])
        return None

    def _key(self, group: Group) -> GroupKey | None:
        found = self._first_in_group(group)
        return None if found is None else (-found[1].priority, self._turns.groups.get(group, 0), found[1].seq)

    def _first_in_group(self, group: Group) -> tuple[LaneHead, Task] | None:
        heads = self._heads[group]
        if len(heads) == 1:
            return self._first_of(heads[0])
        found = [one for head in heads if (one := self._first_of(head)) is not None]
        return min(found, key=lambda one: _in_queue(one[1])) if found else None

    def _first_of(self, head: LaneHead) -> tuple[LaneHead, Task] | None:
        task = head.first(self._capacity)
        return None if task is None else (head, task)


def match(
    heads: Sequence[LaneHead], demands: Sequence[Demand], turns: Turns, gate: Gate | None = None
) -> list[tuple[Demand, Task]]:
    """Hand the heads' tasks to the demands, one at a time and the demands in turn, until one side has no more.

    A task heavier than a worker's whole capacity is left to another worker; one that only does not fit now is waited
    for: the worker gets nothing else before it (E5). Tasks are taken out of `heads`; when one of which more is to be
    read runs dry, for one of the demands at least, the rest waits for the next call, since what stands there may come
    before what is left. What the `gate` does not admit is passed over, and taken out too.
    """
    given: list[tuple[Demand, Task]] = []
    orders: dict[tuple[frozenset[int], str | None, int], ServiceOrder] = {}
    unfilled: deque[tuple[Demand, ServiceOrder]] = deque()
    capacities: dict[int, set[int]] = {}
    for demand in demands:
        # Who asks is given as much as it can take: a minimum says when it asks, not how much it gets (E6).
        if demand.room() <= 0:
            continue
        kind = (demand.jobs, demand.pool, demand.capacity)
        if kind not in orders:
            served = [head for head in heads if serves(demand.jobs, demand.pool, head.lane)]
            orders[kind] = ServiceOrder(served, demand.capacity, turns)
        unfilled.append((demand, orders[kind]))

    def runs_dry(head: LaneHead) -> bool:
        if head.is_all:
            return False
        if head.lane.id not in capacities:
            capacities[head.lane.id] = capacities_for(head.lane, demands)
        return head.is_dry(capacities[head.lane.id])

    # For these what comes first is too heavy now; another may take it from before them.
    waiting: list[tuple[Demand, ServiceOrder]] = []
    tried = 0
    while unfilled or (waiting and len(given) > tried):
        if not unfilled:
            unfilled, waiting, tried = deque(waiting), [], len(given)
        demand, order = unfilled.popleft()
        room = demand.spare()
        if room <= 0 or (found := order.first()) is None:
            continue
        head, task = found
        if gate is not None and not gate.admits(task):
            head.take(task)
            unfilled.appendleft((demand, order))
            if runs_dry(head):
                break
            continue
        if task.weight > room:
            waiting.append((demand, order))
            continue
        head.take(task)
        if gate is not None:
            gate.take(task)
        demand.reserve(task)
        turns.served(head.room, head.group)
        given.append((demand, task))
        if runs_dry(head):
            break
        unfilled.append((demand, order))
    return given
