"""The model's claims: who gets which task, and in whose turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.model.rights import Rights
from tests.model.things import CONFLICT, NO_WORKER, Task, User, Worker
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


@dataclass(frozen=True)
class Kept:
    """What was claimed under a key."""

    most: int
    runs: list[tuple[str, int | None]]
    expires_at: datetime


class Claims(Rights):
    """What is given to workers."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.turns = Turns()
        self.kept: dict[tuple[str, str], Kept] = {}
        """By worker and key."""

    def kept_claims(self, worker_id: str, key: str | None, most: int, now: datetime) -> list[Task] | None:
        """Return what the worker still holds of what it claimed under the key; None when nothing was claimed."""
        kept = None if key is None else self.kept.get((worker_id, key))
        if kept is None or kept.expires_at <= now:
            return None
        if kept.most != most:
            raise CONFLICT
        claimed = [(self.tasks[task_id], run_id) for task_id, run_id in kept.runs]
        return [
            task for task, run_id in claimed if task.is_leased and (task.worker_id, task.run_id) == (worker_id, run_id)
        ]

    def keep_claims(self, worker_id: str, key: str | None, most: int, claimed: Sequence[Task]) -> None:
        """Keep what was claimed, for a lease; a claim of nothing may be repeated as it is."""
        if key is not None and claimed:
            last = max(task.taken_until for task in claimed if task.taken_until is not None)
            self.kept[worker_id, key] = Kept(most, [(task.id, task.run_id) for task in claimed], last)

    def claim(
        self,
        user: User,
        worker_id: str,
        most: int,
        now: datetime,
        given: Sequence[str] | None = None,
        *,
        key: str | None = None,
        granted: int | None = None,
    ) -> list[Task]:
        """Return what the worker gets, or got already under the key.

        With `given` turns are not known: any order is right that keeps each queue's. `granted` is how many it gets at
        most where that is not as many as it may.
        """
        worker = self.own_worker(user, worker_id)
        if worker.state is WorkerState.LOST:
            raise NO_WORKER
        if now > worker.last_heartbeat:
            self.revive(worker, now)
        if (kept := self.kept_claims(worker_id, key, most, now)) is not None:
            return kept
        claimed = self._claim(worker, most if granted is None else granted, now, given)
        self.keep_claims(worker_id, key, most, claimed)
        return claimed

    def _claim(self, worker: Worker, most: int, now: datetime, given: Sequence[str] | None) -> list[Task]:
        claimed: list[Task] = []
        wanted = worker.min_concurrency
        if worker.state is WorkerState.DRAINING or (wanted and self.weight_of(worker.id) >= wanted):
            return claimed
        while len(claimed) < most:
            capacity = UNLIMITED if worker.concurrency is None else worker.concurrency
            spare = capacity - (0 if worker.concurrency is None else self.weight_of(worker.id))
            heads = self.heads(worker, capacity, now)
            if spare <= 0 or not heads:
                break
            task = heads[0] if given is None else self.chosen(heads, given[len(claimed) :])
            if task.weight > spare:
                break
            room, group = self.group_of(task)
            self.turns.served(room, group)
            self._open_run(task, worker.id, now)
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
        self.note_claim(task, now)
