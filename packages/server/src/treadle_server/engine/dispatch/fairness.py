"""Who gets which task: in the order of each queue, in turn between jobs and rooms within a priority (L9)."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from treadle_server.domain.jobs import Lane
from treadle_server.domain.limits import Gate
from treadle_server.domain.tasks import Task
from treadle_server.engine.dispatch.lazy_heap import LazyHeap
from treadle_server.engine.dispatch.slots import Demand

Group = tuple[int, str]
"""A job and, when it is fair between rooms, the room: within it the order is strict."""

GroupKey = tuple[int, int, int]
"""A group's place among its room's: least urgent last, then who was served longest ago, then who came first."""

RoomKey = tuple[int, int, int, int]
"""A room's place: the urgency of its first group, when the room was served, and what tells equals apart."""

Kind = tuple[frozenset[int], str | None, int]
"""Demands that are served alike: by their jobs, their pool and their capacity."""

MOST_KINDS = 100
"""Kinds of demands whose order is kept."""


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
        return any(capacity not in self.light and self.first(capacity) is None for capacity in capacities)

    def take(self, task: Task) -> None:
        """Take the task out."""
        if self.tasks[0] is task:
            self.tasks.popleft()
            return
        for tasks in (self.tasks, *self.light.values()):
            for i, other in enumerate(tasks):
                if other.seq == task.seq:
                    del tasks[i]
                    break


def queue_key(task: Task) -> tuple[int, datetime, int]:
    """Return what tasks of one queue are ordered by."""
    return (-task.priority, task.due_at, task.seq)


def serves(jobs: Collection[int], pool: str | None, lane: Lane) -> bool:
    """Return whether who serves these jobs, in this pool, takes tasks of the lane: it has no pool, or the same."""
    return lane.job_num in jobs and (not lane.pool or lane.pool == pool)


def capacities_for(lane: Lane, demands: Iterable[Demand]) -> set[int]:
    """Return the capacities of those of the demands that are served from the lane."""
    return {demand.capacity for demand in demands if serves(demand.jobs, demand.pool, lane)}


class ServiceOrder:
    """The heads of the lanes that demands of one kind serve, in the order in which they are served.

    A heap of rooms, and in each a heap of groups. Only who was served moves, and always back: so a pick among n groups
    costs O(log n), with any number of jobs. It stands from one claim to the next, and is told what was read.
    """

    def __init__(self, capacity: int, turns: Turns) -> None:
        self._capacity = capacity
        self._turns = turns
        self._heads: dict[Group, dict[int, LaneHead]] = defaultdict(dict)
        self._groups: dict[str, LazyHeap[Group, GroupKey]] = {}
        self._rooms: LazyHeap[str, RoomKey] = LazyHeap(self._room_key)

    def tell(self, head: LaneHead) -> None:
        """Look anew at a lane's head: it was not known, or its first task may be another one."""
        self._heads[head.group][head.lane.id] = head
        if head.room not in self._groups:
            self._groups[head.room] = LazyHeap(self._key)
        self._groups[head.room].tell(head.group)
        self._rooms.tell(head.room)

    def first(self) -> tuple[LaneHead, Task] | None:
        """Return the task whose turn it is, and the head it stands in."""
        room = self._rooms.only or self._rooms.first()
        if room is None:
            return None
        group = self._groups[room].only or self._groups[room].first()
        return None if group is None else self._first_in_group(group)

    def _room_key(self, room: str) -> RoomKey | None:
        groups = self._groups[room]
        group = groups.first()
        key = None if group is None else groups.key_of(group)
        return None if key is None else (key[0], self._turns.rooms.get(room, 0), key[1], key[2])

    def _key(self, group: Group) -> GroupKey | None:
        found = self._first_in_group(group)
        return None if found is None else (-found[1].priority, self._turns.groups.get(group, 0), found[1].seq)

    def _first_in_group(self, group: Group) -> tuple[LaneHead, Task] | None:
        heads = self._heads[group]
        if len(heads) == 1:
            [head] = heads.values()
            return self._first_of(head)
        found = [one for head in heads.values() if (one := self._first_of(head)) is not None]
        return min(found, key=lambda one: queue_key(one[1])) if found else None

    def _first_of(self, head: LaneHead) -> tuple[LaneHead, Task] | None:
        task = head.first(self._capacity)
        return None if task is None else (head, task)


class ServiceOrders:
    """The heads of all lanes, and the order of each kind of demand among those that it serves."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.heads: dict[int, LaneHead] = {}
        self._orders: dict[Kind, ServiceOrder] = {}

    def tell(self, heads: Iterable[LaneHead]) -> None:
        """Look anew at heads that were read, or that were changed in another way than by a claim."""
        for head in heads:
            self.heads[head.lane.id] = head
            for (jobs, pool, _), order in self._orders.items():
                if serves(jobs, pool, head.lane):
                    order.tell(head)

    def order_of(self, demand: Demand) -> ServiceOrder:
        """Return the order in which the demand is served."""
        kind = (demand.jobs, demand.pool, demand.capacity)
        order = self._orders.get(kind)
        if order is None:
            if len(self._orders) >= MOST_KINDS:
                self._orders.clear()
            order = self._orders[kind] = ServiceOrder(demand.capacity, self.turns)
            for head in self.heads.values():
                if serves(demand.jobs, demand.pool, head.lane):
                    order.tell(head)
        return order

    def clear(self) -> None:
        """Forget all heads, but not whose turn it is."""
        self.heads.clear()
        self._orders.clear()


def match(orders: ServiceOrders, demands: Sequence[Demand], gate: Gate | None = None) -> list[tuple[Demand, Task]]:
    """Hand the heads' tasks to the demands, one at a time and the demands in turn, until one side has no more.

    A task heavier than a worker's whole capacity is left to another worker; one that only does not fit now is waited
    for: the worker gets nothing else before it (E5). Tasks are taken out of their heads; when one of which more is to
    be read runs dry, for one of the demands at least, the rest waits for the next call, since what stands there may
    come before what is left. What the `gate` does not admit is passed over, and taken out too.
    """
    given: list[tuple[Demand, Task]] = []
    # Who asks is given as much as it can take: a minimum says when it asks, not how much it gets (E6).
    unfilled = deque((demand, orders.order_of(demand)) for demand in demands if demand.room() > 0)
    capacities: dict[int, set[int]] = {}

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
        fits = task.weight <= room
        if gate is not None and not gate.admits(task, takes=fits):
            head.take(task)
            unfilled.appendleft((demand, order))
            if runs_dry(head):
                break
            continue
        if not fits:
            waiting.append((demand, order))
            continue
        head.take(task)
        demand.reserve(task)
        orders.turns.served(head.room, head.group)
        given.append((demand, task))
        if runs_dry(head):
            break
        unfilled.append((demand, order))
    return given
