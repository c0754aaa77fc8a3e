"""Decides which worker gets which task: in each queue's order, with jobs and rooms in turn within a priority (L9)."""

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
"""A job and, if it is fair between rooms, the room; the order within a group is strict."""

GroupKey = tuple[int, int, int]
"""A group's place in its room: by urgency, then least recently served first, then first come first served."""

RoomKey = tuple[int, int, int, int]
"""A room's place: the urgency of its first group, when the room was last served, and the rest of that group's key."""

Kind = tuple[frozenset[int], str | None, int]
"""What makes demands equal in how they are served: their jobs, their pool and their capacity."""

MOST_TURNS = 20_000
"""For how many turns it is remembered who had them, where rooms or groups are more than twice as many."""

MOST_KINDS = 100
"""For how many kinds of demands the service order is kept."""


@dataclass(slots=True)
class Turns:
    """When each room and group was last served; the least recently served goes first."""

    count: int = 0
    rooms: dict[str, int] = field(default_factory=dict)
    groups: dict[Group, int] = field(default_factory=dict)

    def served(self, room: str, group: Group) -> None:
        """Note that a task of the room and group was handed out, which makes both the last in turn."""
        self.count += 1
        self.rooms[room] = self.count
        self.groups[group] = self.count

    def forget(self) -> None:
        """Forget those that were served long ago, if there are too many; they are first in turn again."""
        since = self.count - MOST_TURNS
        if len(self.groups) > 2 * MOST_TURNS:
            self.rooms = {room: at for room, at in self.rooms.items() if at > since}
            self.groups = {group: at for group, at in self.groups.items() if at > since}


@dataclass(slots=True)
class LaneHead:
    """A lane's claimable head."""

    lane: Lane
    room: str
    """The room whose turn it uses: the lane's if the job is fair, otherwise the job's."""
    tasks: deque[Task]
    light: dict[int, deque[Task]] = field(default_factory=dict)
    """By capacity for which all `tasks` are too heavy: the tasks behind them that are not."""
    is_all: bool = True
    """Whether these are all claimable tasks in the lane."""
    group: Group = field(init=False)
    """The group within which the order is strict."""

    def __post_init__(self) -> None:
        self.group = (self.lane.job_num, self.lane.room)

    @property
    def all_tasks(self) -> Iterator[Task]:
        """Return its tasks, including those of `light`."""
        return chain(self.tasks, *self.light.values())

    def first(self, capacity: int) -> Task | None:
        """Return the first task that is not heavier than `capacity`, or None."""
        for task in self.light.get(capacity, self.tasks):
            if task.weight <= capacity:
                return task
        return None

    def is_dry(self, capacities: Collection[int]) -> bool:
        """Return whether more must be read before it is known which task comes first for each of the capacities."""
        return any(capacity not in self.light and self.first(capacity) is None for capacity in capacities)

    def take(self, task: Task) -> None:
        """Remove the task."""
        if self.tasks[0] is task:
            self.tasks.popleft()
            return
        for tasks in (self.tasks, *self.light.values()):
            for i, other in enumerate(tasks):
                if other.seq == task.seq:
                    del tasks[i]
                    break


def queue_key(task: Task) -> tuple[int, datetime, int]:
    """Return the key by which the tasks of one queue are ordered."""
    return (-task.priority, task.due_at, task.seq)


def serves(jobs: Collection[int], pool: str | None, lane: Lane) -> bool:
    """Return whether a worker with these jobs and this pool takes tasks of the lane: it has no pool, or the same."""
    return lane.job_num in jobs and (not lane.pool or lane.pool == pool)


def capacities_for(lane: Lane, demands: Iterable[Demand]) -> set[int]:
    """Return the capacities of the demands that are served from the lane."""
    return {demand.capacity for demand in demands if serves(demand.jobs, demand.pool, lane)}


class ServiceOrder:
    """The heads of the lanes that demands of one kind serve, in the order in which they are served.

    It is a heap of rooms, each with a heap of groups. Only what was served moves, and always to the back, so picking
    among n groups costs O(log n) with any number of jobs. It is kept from one claim to the next, and must be told of
    each head that is read.
    """

    def __init__(self, capacity: int, turns: Turns) -> None:
        self._capacity = capacity
        self._turns = turns
        self._heads: dict[Group, dict[int, LaneHead]] = defaultdict(dict)
        self._groups: dict[str, LazyHeap[Group, GroupKey]] = {}
        self._rooms: LazyHeap[str, RoomKey] = LazyHeap(self._room_key)

    def update(self, head: LaneHead) -> None:
        """Add a lane's head, or update it because its first task may have changed."""
        self._heads[head.group][head.lane.id] = head
        if head.room not in self._groups:
            self._groups[head.room] = LazyHeap(self._key)
        self._groups[head.room].update(head.group)
        self._rooms.update(head.room)

    def first(self) -> tuple[LaneHead, Task] | None:
        """Return the task whose turn it is with its head, or None if there is none."""
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
    """The heads of all lanes, and for each kind of demand the service order of the lanes that it serves."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.heads: dict[int, LaneHead] = {}
        self._orders: dict[Kind, ServiceOrder] = {}

    def update(self, heads: Iterable[LaneHead]) -> None:
        """Add heads that were read, or update those that changed other than by a claim."""
        for head in heads:
            self.heads[head.lane.id] = head
            for (jobs, pool, _), order in self._orders.items():
                if serves(jobs, pool, head.lane):
                    order.update(head)

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
                    order.update(head)
        return order

    def clear(self) -> None:
        """Forget all heads, but not whose turn it is, unless that was long ago."""
        self.heads.clear()
        self._orders.clear()
        self.turns.forget()


def match(orders: ServiceOrders, demands: Sequence[Demand], gate: Gate | None = None) -> list[tuple[Demand, Task]]:
    """Hand the heads' tasks to the demands, one at a time and the demands in turn, until either side is exhausted.

    A task heavier than a worker's whole capacity is left to other workers; for one that merely doesn't fit now, the
    worker waits and gets nothing else before it (E5). Tasks are removed from their heads. When a head that has more
    tasks in the store runs dry for at least one of the demands, matching ends until the next call, because its next
    tasks may come before those that are left. Tasks that the `gate` does not admit are skipped and removed too.
    """
    given: list[tuple[Demand, Task]] = []
    # A demand gets as much as it can take: its minimum decides when it asks, not how much it gets (E6).
    unfilled = deque((demand, orders.order_of(demand)) for demand in demands if demand.room() > 0)
    capacities: dict[int, set[int]] = {}

    def runs_dry(head: LaneHead) -> bool:
        if head.is_all:
            return False
        if head.lane.id not in capacities:
            capacities[head.lane.id] = capacities_for(head.lane, demands)
        return head.is_dry(capacities[head.lane.id])

    # For these the first task is too heavy at the moment; another demand may take it away.
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
