"""A run asks for the message that a step of its waits for."""

from dataclasses import dataclass

from treadle_server.domain.steps import Step
from treadle_server.engine.commands.base import OneRow
from treadle_server.engine.commands.reports import ReportRun
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork


@dataclass(slots=True)
class Receive(OneRow):
    """Takes the oldest message that a step waits for, if there is one."""

    asked: ReportRun
    """Of the kind `receive`."""

    def reads(self, reads: ReadSet) -> None:
        """Read what the report is held against, and the message."""
        self.asked.reads(reads)

    def apply(self, work: UnitOfWork) -> Step | None:
        """Return the step that has received it, now or before; None: no message waits. Raises as `ReportRun`."""
        task, step = self.asked.apply(work), self.asked.report.step
        assert step is not None
        return work.steps.kept.get((task.seq, step.name, step.occurrence))
