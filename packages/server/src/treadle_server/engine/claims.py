"""Who gets which task: in the order of each queue, in turn between jobs and rooms within a priority (L9)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from treadle_server.domain.jobs import Lane
from treadle_server.domain.tasks import Task
from treadle_server.engine.seats import Demand

Group = tuple[int, str]
"""A job and, when it is fair between rooms, the room: within it the order is strict."""


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

    @property
    def group(self) -> Group:
        """Return within which the order is strict."""
        return (self.lane.job_num, self.lane.room)


def _in_queue(task: Task) -> tuple[int, datetime, int]:
    return (-task.priority, task.due_at, task.seq)


def serves(demand: Demand, lane: Lane) -> bool:
    """Return whether the demand's worker takes tasks of the lane."""
    return lane.job_num in demand.jobs and (not lane.pool or lane.pool == demand.pool)


def match(lines: Sequence[Line], demands: Sequence[Demand], turns: Turns) -> list[tuple[Demand, Task]]:
    """Hand the lines' tasks to the demands, one at a time and the demands in turn, until one side has no more.

    A task heavier than a worker's whole capacity is left to another worker; one that only does not fit now is waited
    for: the worker gets nothing else before it (E5). Tasks are taken out of `lines`.
    """
    given: list[tuple[Demand, Task]] = []
    # Who asks is given as much as it can take: a minimum says when it asks, not how much it gets (E6).
    asking = [demand for demand in demands if demand.room() > 0]
    hungry = deque((demand, [line for line in lines if serves(demand, line.lane)]) for demand in asking)
    while hungry:
        demand, served = hungry.popleft()
        room = demand.spare()
        if room <= 0 or (picked := _pick(served, demand.capacity, turns)) is None:
            continue
        line, task = picked
        if task.weight > room:
            continue
        line.tasks.remove(task)
        demand.reserve(task)
        turns.served(line.room, line.group)
        given.append((demand, task))
        hungry.append((demand, served))
    return given


def _pick(lines: list[Line], capacity: int, turns: Turns) -> tuple[Line, Task] | None:
    """Return the task whose turn it is among the lines' heads."""
    heads: dict[Group, tuple[Line, Task]] = {}
    for line in lines:
        task = next((t for t in line.tasks if t.weight <= capacity), None)
        if task is None:
            continue
        other = heads.get(line.group)
        if other is None or _in_queue(task) < _in_queue(other[1]):
            heads[line.group] = (line, task)
    if not heads:
        return None

    def turn(group: Group) -> tuple[int, int, int, int]:
        line, task = heads[group]
        return (-task.priority, turns.rooms.get(line.room, 0), turns.groups.get(group, 0), task.seq)

    return heads[min(heads, key=turn)]
