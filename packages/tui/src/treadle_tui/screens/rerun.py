"""Runs an ended task again, after asking from where."""

from treadle_tui.core.draw.format import short_id
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.commands import CommandError
from treadle_tui.core.verbs.plan import Refusal
from treadle_tui.core.verbs.reruns import read_step, refused
from treadle_tui.screens.base import BaseScreen
from treadle_tui.widgets.step_prompt import StepPrompt


class RerunActions(BaseScreen):
    """A screen of one task that can be run again; what is asked of the server runs beside it."""

    def steps_left_out(self) -> int:
        """Return how many earlier ones it keeps."""
        return 0

    def act_rerun(self) -> None:
        """Ask from where, and run the task again."""
        found = self._found()
        if isinstance(found, Refusal):
            self.tell(found.report)
            return
        task = found

        def answered(line: str | None) -> None:
            if line is not None:
                self.tell_of(self.ctx.executor.rerun(task, read_step(line)))

        prompt = StepPrompt(f"Run {short_id(task.id)} again", self.steps(), left_out=self.steps_left_out())
        self.app.push_screen(prompt, answered)

    def with_rerun(self, line: str) -> None:
        """Run the task again from a step. Raises `StepError` when that is none, `CommandError` when it can't be."""
        step = read_step(line)
        found = self._found()
        if isinstance(found, Refusal):
            raise CommandError(found.reason)
        self.tell_of(self.ctx.executor.rerun(found, step))

    def _found(self) -> TaskRef | Refusal:
        """Return the task, or why it can't be run again."""
        if (refusal := self.ctx.executor.off()) is not None:
            return refusal
        task = next(iter(self.chosen()), None)
        return Refusal("this task is not here") if task is None else refused(task) or task
