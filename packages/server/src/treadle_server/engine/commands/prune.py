"""Removes ended tasks, and workers that were lost long ago, a step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from treadle.wire.ids import WorkerId
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.store.transaction.prune import Cutoffs, Pruning


@dataclass(slots=True, kw_only=True)
class PruneTasks:
    """Removes those of the tasks that ended before the cutoffs, hold nothing and are not needed."""

    seqs: Sequence[int]
    cutoffs: Cutoffs
    _step: Pruning = field(init=False)

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return len(self.seqs)

    def reads(self, reads: ReadSet) -> None:
        """Have it checked again which of the tasks may go. A batch that is retried starts from the beginning."""
        self._step = Pruning(self.seqs, self.cutoffs)
        reads.prunings.append(self._step)

    def apply(self, work: UnitOfWork) -> Pruning:
        """Return the step, which knows what it has removed once the batch is written.

        Tasks that another command of the batch has read stay for now: they may be about to run again or be waited for.
        """
        known = {task.seq for task in work.tasks.values()}
        known |= {task.seq for task in work.dependencies.needed.values()}
        self._step.found = [task for task in self._step.found if task.seq not in known]
        work.changes.prunings.append(self._step)
        return self._step


@dataclass(slots=True, kw_only=True)
class PruneWorkers:
    """Removes those of the workers that were lost before the instant and hold nothing."""

    ids: Sequence[WorkerId]
    before: datetime

    @property
    def rows(self) -> int:
        """Return how many workers it may remove."""
        return len(self.ids)

    def reads(self, reads: ReadSet) -> None:
        """Read the workers with what they hold."""
        for worker_id in self.ids:
            reads.worker(worker_id)

    def apply(self, work: UnitOfWork) -> int:
        """Return how many it removed; one that has come back meanwhile stays."""
        holding = {task.worker_id for task in work.tasks.values() if task.is_leased}
        holding |= {hold.worker_id for hold in work.holds.values()}
        gone = [worker for one in self.ids if (worker := work.workers.get(one)) and worker.id not in holding]
        gone = [worker for worker in gone if worker.lost_at is not None and worker.lost_at < self.before]
        for worker in gone:
            work.remove_worker(worker)
        return len(gone)
