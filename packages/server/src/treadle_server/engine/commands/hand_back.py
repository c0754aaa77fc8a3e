"""Claims that are given back before they were started."""

from dataclasses import dataclass

from treadle.wire.ids import TaskId, WorkerId
from treadle_server.access.principal import Principal
from treadle_server.engine.commands.reports import ReportRun
from treadle_server.engine.commands.run_report import RunReport
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import Refused, TreadleError


@dataclass(slots=True, kw_only=True)
class HandBack:
    """Gives back runs that were claimed and not started; costs no budget."""

    principal: Principal
    worker_id: WorkerId
    runs: list[tuple[TaskId, int]]

    @property
    def rows(self) -> int:
        """Return how many tasks it may write."""
        return len(self.runs)

    def reads(self, reads: ReadSet) -> None:
        """Read the tasks."""
        reads.workers.add(self.worker_id)
        for task_id, run_id in self.runs:
            reads.tasks.add(task_id)
            reads.runs.add((task_id, run_id))

    def apply(self, work: UnitOfWork) -> list[TreadleError | None]:
        """Return for each run why it could not be handed back, or None."""
        answers: list[TreadleError | None] = []
        for task_id, run_id in self.runs:
            one = ReportRun(
                principal=self.principal,
                worker_id=self.worker_id,
                task_id=task_id,
                run_id=run_id,
                report=RunReport(kind="returned"),
            )
            try:
                one.apply(work)
            except Refused as refusal:
                answers.append(refusal)
            else:
                answers.append(None)
        return answers
