"""Removes ended tasks, a step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

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
