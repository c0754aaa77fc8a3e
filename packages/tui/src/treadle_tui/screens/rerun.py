"""Reruns an ended task, after asking from where."""

from treadle_tui.core.draw.format import short_id
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.commands import CommandError
from treadle_tui.core.verbs.plan import Refusal
from treadle_tui.core.verbs.reruns import read_step, refused
from treadle_tui.screens.base import BaseScreen
from treadle_tui.widgets.step_prompt import StepPrompt


class RerunActions(BaseScreen):
    """A task's screen from which the task can be rerun. Requests run in the background."""

    def steps_left_out(self) -> int:
        """Return how many earlier steps are not loaded."""
        return 0

    def act_rerun(self) -> None:
        """Ask from where, and rerun the task."""
        found = self._found()
        if isinstance(found, Refusal):
            self.tell(found.report)
            return
        task = found

        def answered(line: str | None) -> None:
            if line is not None:
                self.show_report_of(self.ctx.executor.rerun(task, read_step(line)))

        prompt = StepPrompt(f"Rerun {short_id(task.id)}", self.steps(), left_out=self.steps_left_out())
        self.app.push_screen(prompt, answered)

    def with_rerun(self, line: str) -> None:
        """Rerun the task from a step. Raises `StepError` for an invalid name, `CommandError` if it can't be rerun."""
        step = read_step(line)
        found = self._found()
        if isinstance(found, Refusal):
            raise CommandError(found.reason)
        self.show_report_of(self.ctx.executor.rerun(found, step))

    def _found(self) -> TaskRef | Refusal:
        """Return the task, or why it can't be rerun."""
        if (refusal := self.ctx.executor.off()) is not None:
            return refusal
        task = next(iter(self.chosen()), None)
        return Refusal("this task is not loaded") if task is None else refused(task) or task
