"""The model's full limits: what is refused, and what a new task supersedes."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from tests.model.limits import Limits
from tests.model.things import LIMIT_FULL, Key, Task
from treadle.wire.status import Reason, Status

SUPERSEDING = {"newest", "replace"}


class Crowds(Limits):
    """What becomes of a task that is put in when a limit is full."""

    def on_full(self, key: Key) -> str | None:
        limit = self.limits.get(key[:2])
        return None if limit is None else limit.on_full

    def weight_waiting(self, key: Key) -> int:
        """What those that wait for a key will count."""
        return sum(self.counted(key, task.counts[key]) for task in self.waiting(key))

    def check_room(self, wanted: Sequence[tuple[dict[Key, int], bool]], now: datetime) -> None:
        """Refuse all of these together, each with whether it could begin at once, if a limit that rejects is full."""
        weights, numbers = Counter[Key](), Counter[Key]()
        for counts, is_due in wanted:
            rejecting = {
                key: self.counted(key, weight) for key, weight in counts.items() if self.on_full(key) == "reject"
            }
            for key, weight in rejecting.items():
                ahead = self.weight_waiting(key) + weights[key]
                if self.is_beyond(key, ahead + weight, len(self.waiting(key)) + numbers[key] + 1, now):
                    raise LIMIT_FULL
            if is_due:
                weights.update(rejecting)
                numbers.update(rejecting.keys())

    def supersedes(self, counts: dict[Key, int]) -> bool:
        """Whether a task that counts against these may take the place of others."""
        return any(self.on_full(key) in SUPERSEDING for key in counts)

    def supersede(self, new: Task, now: datetime) -> None:
        """Let a new task take the place of those that wait under its keys, or run there, where the limits say so."""
        if new.status is not Status.PENDING:
            return
        for key, weight in new.counts.items():
            is_full = self.is_beyond(key, self.weight_waiting(key), len(self.waiting(key)), now)
            if self.on_full(key) not in SUPERSEDING or not is_full:
                continue
            limit = self.limits[key[:2]]
            gone = [task for task in self.waiting(key) if task is not new]
            if limit.on_full == "replace" and limit.concurrency is not None:
                gone += self._in_the_way(key, limit.concurrency - self.counted(key, weight))
            for task in gone:
                self.cancel(task, now, Reason.SUPERSEDED)
                task.error = f"task {new.id} superseded it: the limit {limit.name!r} of room {limit.room} was full"

    def _in_the_way(self, key: Key, most: int) -> list[Task]:
        """Return the tasks whose runs go, the first claimed first, so that no more than `most` is left of runs."""
        running = [t for t in self.tasks.values() if t.is_leased and key in self.uses.get((t.id, t.run_id or 0), {})]
        running.sort(key=lambda task: (task.claimed_at, task.seq))
        weights = {task.id: self.uses[task.id, task.run_id or 0][key] for task in running}
        excess = sum(weights.values()) - most
        gone = []
        for task in running:
            if excess > 0:
                excess -= weights[task.id]
                gone.append(task)
        return gone
