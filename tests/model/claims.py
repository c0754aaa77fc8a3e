"""The model's claims: who gets which task, and in whose turn."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.model.rights import Rights
from tests.model.things import NO_WORKER, Task, User, Worker
from treadle.wire.status import Status, WorkerState
from treadle.wire.transitions import Verb

UNLIMITED = 1_000_000


class Turns:
    """Which rooms and queues were served last: the one that waited longest comes first."""

    def __init__(self) -> None:
        self.count = 0
        self.rooms: dict[str, int] = {}
        self.groups: dict[tuple[str, str], int] = {}

    def served(self, room: str, group: tuple[str, str]) -> None:
        self.count += 1
        self.rooms[room] = self.groups[group] = self.count


class Claims(Rights):
    """What is given to workers."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.turns = Turns()

    def claim(
        self, user: User, worker_id: str, most: int, now: datetime, given: Sequence[str] | None = None
    ) -> list[Task]:
        """Return what the worker gets. With `given` turns are not known: any order is right that keeps each queue's."""
        worker = self.own_worker(user, worker_id)
        if worker.state is WorkerState.LOST:
            raise NO_WORKER
        if now > worker.last_heartbeat:
            self.revive(worker, now)
        claimed: list[Task] = []
        wanted = worker.min_concurrency
        if worker.state is WorkerState.DRAINING or (wanted and self.weight_of(worker_id) >= wanted):
            return claimed
        while len(claimed) < most:
            capacity = UNLIMITED if worker.concurrency is None else worker.concurrency
            spare = capacity - (0 if worker.concurrency is None else self.weight_of(worker_id))
            heads = self.heads(worker, capacity, now)
            if spare <= 0 or not heads:
                break
            task = heads[0] if given is None else self.chosen(heads, given[len(claimed) :])
            if task.weight > spare:
                break
            room, group = self.group_of(task)
            self.turns.served(room, group)
            self._open_run(task, worker_id, now)
            claimed.append(task)
        return claimed

    def heads(self, worker: Worker, capacity: int, now: datetime) -> list[Task]:
        """Return the first task of each queue that the worker serves, in the order in which they are given out."""
        first: dict[tuple[str, str], Task] = {}
        for task in sorted(self.tasks.values(), key=lambda task: task.place):
            fits = task.pool in {None, worker.pool} and task.weight <= capacity and task.job_name in worker.jobs
            if fits and self.is_claimable(task, now):
                first.setdefault(self.group_of(task)[1], task)
        return sorted(first.values(), key=lambda task: self._turn(task, list(first.values())))

    def _turn(self, task: Task, heads: list[Task]) -> tuple[int, int, int, int]:
        room, group = self.group_of(task)
        return (-task.priority, self.turns.rooms.get(room, 0), self.turns.groups.get(group, 0), task.seq)

    @staticmethod
    def chosen(heads: list[Task], given: Sequence[str]) -> Task:
        """Return the head that was given out, if it is one of the most urgent; else the first."""
        urgent = [task for task in heads if task.priority == heads[0].priority]
        return next((task for task in urgent if given and task.id == given[0]), heads[0])

    def group_of(self, task: Task) -> tuple[str, tuple[str, str]]:
        """Return the room whose turn is used up by the task, and the queue in which order is strict."""
        job = self.jobs[task.job_name]
        return (task.room_id, (task.job_name, task.room_id)) if job.fair else (job.room, (task.job_name, ""))

    def position(self, task: Task) -> int | None:
        """Return its place among those that wait in its queue, by counting."""
        if task.status is not Status.PENDING:
            return None
        group = self.group_of(task)[1]
        waiting = [t for t in self.tasks.values() if t.status is Status.PENDING and self.group_of(t)[1] == group]
        return 1 + sum(other.place < task.place for other in waiting)

    def _open_run(self, task: Task, worker_id: str, now: datetime) -> None:
        self.move(task, Verb.CLAIM, Status.CLAIMED, now)
        task.run_id = 0 if task.run_id is None else task.run_id + 1
        task.worker_id, task.claimed_at, task.started_at = worker_id, now, None
        task.taken_until = now + timedelta(seconds=task.lease_seconds)
        task.cancel_requested = task.unfenced = False
        task.next_retry_at = None
