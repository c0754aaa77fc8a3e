"""What one transaction does by the fast paths, by commands and by claims, taken together."""

from dataclasses import dataclass, field

from treadle_server.engine.dispatch.assignments import Assignments
from treadle_server.engine.dispatch.slots import RunKey
from treadle_server.engine.fast_path.reports import ReportEffects
from treadle_server.engine.fast_path.submits import SubmitEffects
from treadle_server.engine.hub import Batch
from treadle_server.engine.unit_of_work import UnitOfWork


@dataclass(slots=True)
class Effects:
    """The effects of one transaction, not committed yet, in the order in which they are done."""

    submits: SubmitEffects
    reports: ReportEffects
    work: UnitOfWork
    claims: Assignments = field(default_factory=Assignments)

    @property
    def woken(self) -> set[int]:
        """Lanes in which something became claimable."""
        return self.submits.woken | self.reports.woken | self.work.woken

    @property
    def released(self) -> list[RunKey]:
        """Runs that hold no room any more."""
        return [*self.reports.released, *self.work.released]

    def batch(self) -> Batch:
        """Return what is to be told of it, once it is committed: what was worked out, and around it the rest."""
        told = self.work.batch
        told.is_exclusive = self.work.tx.is_exclusive
        told.lanes = self.woken | self.claims.left
        told.tasks = [*self.submits.changes, *self.reports.changes, *told.tasks, *self.claims.changes]
        told.runs = self.reports.runs + told.runs
        told.shifted |= self.claims.shifted
        told.targets |= self.submits.targets | self.reports.targets | self.claims.targets
        told.due_at = min((at for at in (told.due_at, self.claims.opens_at) if at is not None), default=None)
        return told
