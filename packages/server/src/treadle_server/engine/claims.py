"""Who gets which task: in the order of each queue, in turn between jobs and rooms within a priority (L9)."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heapreplace

from treadle_server.domain.jobs import Lane
from treadle_server.domain.tasks import Task
from treadle_server.engine.seats import Demand

Group = tuple[int, str]
"""A job and, when it is fair between rooms, the room: within it the order is strict."""

Key = tuple[int, int, int]
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
        """Note that a task of the room and group was handed out."""
        self.count += 1
        self.rooms[room] = self.count
        self.groups[group] = self.count


@dataclass(slots=True)
class Line:
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

    def first(self, capacity: int) -> Task | None:
        """Return the first task that is not heavier than `capacity`."""
        for task in self.light.get(capacity, self.tasks):
            if task.weight <= capacity:
                return task
        return None

    def is_dry(self, capacities: Collection[int]) -> bool:
        """Return whether more is to be read before workers of all these capacities know what comes first."""
        return not self.is_all and any(c not in self.light and self.first(c) is None for c in capacities)

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


def _in_queue(task: Task) -> tuple[int, datetime, int]:
    return (-task.priority, task.due_at, task.seq)


def serves(demand: Demand, lane: Lane) -> bool:
    """Return whether the demand's worker takes tasks of the lane."""
    return lane.job_num in demand.jobs and (not lane.pool or lane.pool == demand.pool)


def capacities_for(lane: Lane, demands: Iterable[Demand]) -> set[int]:
    """Return the capacities of those of the demands that are served from the lane."""
    return {demand.capacity for demand in demands if serves(demand, lane)}


class Order:
    """The lines that demands of one kind serve, in the order in which they are served.

    A heap of rooms, and in each a heap of groups. Only who was served moves, and always back: so an entry is looked
    at anew when it comes to the top, and a pick among n groups costs O(log n), with any number of jobs.
    """

    def __init__(self, lines: Iterable[Line], capacity: int, turns: Turns) -> None:
        self._capacity = capacity
        self._turns = turns
        self._lone: Line | None = None
        """The only line, when there is but one: then there are no turns to take."""
        self._lines: dict[Group, list[Line]] = defaultdict(list)
        self._groups: dict[str, list[tuple[Key, Group]]] = defaultdict(list)
        for line in lines:
            self._lines[line.group].append(line)
        if len(self._lines) == 1 and len(members := next(iter(self._lines.values()))) == 1:
            self._lone = members[0]
        for group, members in self._lines.items():
            if (key := self._key(group)) is not None:
                self._groups[members[0].room].append((key, group))
        for groups in self._groups.values():
            heapify(groups)
        self._rooms = [(place, room) for room in self._groups if (place := self._room_key(room)) is not None]
        heapify(self._rooms)

    def first(self) -> tuple[Line, Task] | None:
        """Return the task whose turn it is, and its line."""
        if self._lone is not None:
            return self._first_of(self._lone)
        while self._rooms:
            key, room = self._rooms[0]
            now = self._room_key(room)
            if now is None:
                heappop(self._rooms)
            elif now != key:
                heapreplace(self._rooms, (now, room))
            else:
                return self._head(self._groups[room][0][1])
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

    def _key(self, group: Group) -> Key | None:
        found = self._head(group)
        return None if found is None else (-found[1].priority, self._turns.groups.get(group, 0), found[1].seq)

    def _head(self, group: Group) -> tuple[Line, Task] | None:
        lines = self._lines[group]
        if len(lines) == 1:
            return self._first_of(lines[0])
        heads = [head for line in lines if (head := self._first_of(line)) is not None]
        return min(heads, key=lambda head: _in_queue(head[1])) if heads else None

    def _first_of(self, line: Line) -> tuple[Line, Task] | None:
        task = line.first(self._capacity)
        return None if task is None else (line, task)


def match(lines: Sequence[Line], demands: Sequence[Demand], turns: Turns) -> list[tuple[Demand, Task]]:
    """Hand the lines' tasks to the demands, one at a time and the demands in turn, until one side has no more.

    A task heavier than a worker's whole capacity is left to another worker; one that only does not fit now is waited
    for: the worker gets nothing else before it (E5). Tasks are taken out of `lines`; when one of which more is to be
    read runs dry, for one of the demands at least, the rest waits for the next call, since what stands there may come
    before what is left.
    """
    given: list[tuple[Demand, Task]] = []
    orders: dict[tuple[tuple[int, ...], int], Order] = {}
    hungry: deque[tuple[Demand, Order]] = deque()
    capacities = {line.lane.id: capacities_for(line.lane, demands) for line in lines if not line.is_all}
    for demand in demands:
        # Who asks is given as much as it can take: a minimum says when it asks, not how much it gets (E6).
        if demand.room() <= 0:
            continue
        served = [line for line in lines if serves(demand, line.lane)]
        kind = (tuple(line.lane.id for line in served), demand.capacity)
        if kind not in orders:
            orders[kind] = Order(served, demand.capacity, turns)
        hungry.append((demand, orders[kind]))
    # For these what comes first is too heavy now; another may take it from before them.
    waiting: list[tuple[Demand, Order]] = []
    tried = 0
    while hungry or (waiting and len(given) > tried):
        if not hungry:
            hungry, waiting, tried = deque(waiting), [], len(given)
        demand, order = hungry.popleft()
        room = demand.spare()
        if room <= 0 or (found := order.first()) is None:
            continue
        line, task = found
        if task.weight > room:
            waiting.append((demand, order))
            continue
        line.take(task)
        demand.reserve(task)
        turns.served(line.room, line.group)
        given.append((demand, task))
        if not line.is_all and line.is_dry(capacities[line.lane.id]):
            break
        hungry.append((demand, order))
    return given
