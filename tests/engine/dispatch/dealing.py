"""What a claim must hand out, worked out from every row that there is: by the definition, as plainly as it can be.

It shares nothing with the engine but the words of DESIGN.md, section 3: no index, no `blocked` column, no heap.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from treadle.wire.fields import MOST_WEIGHT
from treadle.wire.ids import WorkerId
from treadle.wire.status import Status
from treadle_server.domain.jobs import Lane
from treadle_server.domain.tasks import Task
from treadle_server.engine.dispatch.fairness import Turns
from treadle_server.engine.dispatch.slots import Demand, WorkerSlot
from treadle_server.store.base import Tx
from treadle_server.store.tables import holds, jobs, lanes, tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task

OVER = (Status.COMPLETED, Status.CANCELLED)


@dataclass
class Queue:
    """A lane whose job is neither paused nor deleted, and its claimable tasks in their order."""

    lane: Lane
    room: str
    """Whose turn it is: the lane's room in a fair job, else the job's."""
    tasks: list[Task]

    def first(self, capacity: int) -> Task | None:
        return next((task for task in self.tasks if task.weight <= capacity), None)


@dataclass
class Ask:
    """A worker's demand as it stood before the claim."""

    worker_id: WorkerId
    jobs: set[int]
    pool: str | None
    capacity: int
    left: int
    """Tasks that it takes at most."""
    purse: object
    """Who shares its room: the claims over HTTP of one worker do."""
    room: int

    @classmethod
    def of(cls, demand: Demand) -> "Ask":
        common = (demand.worker_id, set(demand.jobs), demand.pool, demand.capacity)
        if isinstance(demand, WorkerSlot):
            return cls(*common, left=MOST_WEIGHT, purse=id(demand), room=demand.spare())
        left = demand.most - demand.taken
        return cls(*common, left=left, purse=demand.limit and id(demand.limit), room=demand.spare())

    def serves(self, lane: Lane) -> bool:
        return lane.job_num in self.jobs and lane.pool in {"", self.pool}


def place(task: Task) -> tuple[int, datetime, int]:
    return (-task.priority, task.due_at, task.seq)


def holds_target(task: Task) -> bool:
    return (
        task.is_leased
        or task.status is Status.PAUSED
        or (task.status is Status.SCHEDULED and task.has_run)
        or (task.status is Status.FAILED and task.on_failure == "hold" and not task.settled)
    )


def claimable(rows: Sequence[Task], held: Collection[tuple[int, int | None]], now: datetime) -> list[Task]:
    """Return what may be claimed: one of each free target, nothing whose last run still holds on, nothing overdue."""
    resting = {seq for seq, _ in held}
    taken = {num for _, num in held} | {task.target_num for task in rows if holds_target(task)}
    waiting = [task for task in rows if task.status is Status.PENDING and task.seq not in resting]
    found = [task for task in waiting if task.target_num is None]
    lines: dict[int, list[Task]] = defaultdict(list)
    for task in waiting:
        if task.target_num is not None and task.target_num not in taken:
            lines[task.target_num].append(task)
    # One that was resumed, or whose run ended, goes before all others of its target.
    found += [min(line, key=lambda task: (not task.goes_first, place(task))) for line in lines.values()]
    return [task for task in found if task.deadline is None or task.deadline > now]


async def read_queues(tx: Tx, now: datetime) -> dict[int, Queue]:
    """Return every queue that may be claimed from, as the transaction sees it."""
    query = sa.select(lanes, jobs.c.room.label("home")).join_from(lanes, jobs).where(~jobs.c.paused)
    found = {
        row.id: Queue(Lane(row.id, row.job_num, row.room, row.pool), row.room or row.home, [])
        for row in await tx.connection.execute(query.where(jobs.c.deleted_at.is_(None)))
    }
    open_ = select_tasks().where(tasks.c.status.not_in(OVER))
    rows = [to_task(row) for row in await tx.connection.execute(open_)]
    held = [(row.task_seq, row.target_num) for row in await tx.connection.execute(holds.select())]
    for task in sorted(claimable(rows, held, now), key=place):
        if task.lane in found:
            found[task.lane].tasks.append(task)
    return found


def next_for(ask: Ask, queues: Collection[Queue], turns: Turns) -> tuple[Queue, Task] | None:
    """Return whose turn it is: by priority, then the room, then the job least recently served (L9)."""
    groups: dict[tuple[str, tuple[int, str]], tuple[Queue, Task]] = {}
    for queue in queues:
        task = queue.first(ask.capacity) if ask.serves(queue.lane) else None
        key = (queue.room, (queue.lane.job_num, queue.lane.room))
        if task is not None and (key not in groups or place(task) < place(groups[key][1])):
            groups[key] = (queue, task)

    def turn(key: tuple[str, tuple[int, str]]) -> tuple[int, int, int, int]:
        room, group = key
        task = groups[key][1]
        return (-task.priority, turns.rooms.get(room, 0), turns.groups.get(group, 0), task.seq)

    return groups[min(groups, key=turn)] if groups else None


def deal(queues: Collection[Queue], asks: Sequence[Ask], turns: Turns) -> list[tuple[WorkerId, int]]:
    """Return who gets which task (its `seq`), in turn; `queues` and `turns` are used up."""
    purses = {ask.purse: ask.room for ask in asks if ask.purse is not None}
    given: list[tuple[WorkerId, int]] = []
    hungry, waiting, before = deque(asks), deque[Ask](), 0
    while hungry:
        ask = hungry.popleft()
        room = ask.room if ask.purse is None else purses[ask.purse]
        found = next_for(ask, queues, turns) if ask.left > 0 and room > 0 else None
        if found is not None and found[1].weight > room:
            waiting.append(ask)
        elif found is not None:
            queue, task = found
            queue.tasks.remove(task)
            turns.served(queue.room, (queue.lane.job_num, queue.lane.room))
            given.append((ask.worker_id, task.seq))
            ask.left -= 1
            if ask.purse is not None:
                purses[ask.purse] -= task.weight
            hungry.append(ask)
        if not hungry and len(given) > before:
            # What was too heavy for these may have gone to another meanwhile.
            hungry, waiting, before = waiting, deque(), len(given)
    return given
