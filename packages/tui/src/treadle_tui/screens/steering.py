"""Verbs on tasks: confirms them if necessary, carries them out, and shows the outcome for each task."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from treadle.wire.bulk import FrozenTask
from treadle.wire.filters import TaskFilter
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.action import Verb
from treadle_tui.core.verbs.executor import FAILURES, failed
from treadle_tui.core.verbs.plan import Plan, Refusal, Report
from treadle_tui.screens.asking import AskingScreen
from treadle_tui.widgets.confirm import Confirm
from treadle_tui.widgets.outcomes import Outcomes


class SteeringActions(AskingScreen):
    """A screen with verbs for the tasks that `chosen` returns."""

    @dataclass
    class Named(Message):
        """The server named all tasks that a verb should act on."""

        verb: Verb
        tasks: Sequence[TaskRef]
        are_first: bool
        """Whether there are more than it names at once."""

    def act_cancel(self) -> None:
        """Cancel the chosen tasks."""
        self._steer("cancel")

    def act_pause(self) -> None:
        """Pause the chosen tasks."""
        self._steer("pause")

    def act_resume(self) -> None:
        """Resume or rerun the chosen tasks."""
        self._steer("resume")

    def act_undo(self) -> None:
        """Undo the last action."""
        self.show_report_of(self.ctx.executor.undo())

    def act_report(self) -> None:
        """Show what the last action did to each task."""
        report = self.ctx.report
        if report is None or not report.outcomes:
            self.tell(Report("no action to report on yet", ok=False))
        else:
            self.app.push_screen(Outcomes(report, self.ctx.glyphs))

    def _steer(self, verb: Verb) -> None:
        refusal = self.unsafe()
        if refusal is not None:
            self.tell(refusal.report)
        else:
            self._plan(verb, self.chosen())

    def _plan(self, verb: Verb, tasks: Sequence[TaskRef], *, are_first: bool = False) -> None:
        planned = self.ctx.executor.plan(verb, tasks, are_first=are_first)
        if isinstance(planned, Refusal):
            self.tell(planned.report)
        elif planned.question == "none":
            self.show_report_of(self.ctx.executor.carry_out(planned))
        else:
            self._ask(planned)

    def steer_all(self, verb: Verb, *wanted: TaskFilter) -> None:
        """Act on all tasks that match one of the filters now, in the filters' order, after confirmation if needed."""
        if (refusal := self.ctx.executor.off()) is not None:
            self.tell(refusal.report)
        else:
            self.open_after(self._freeze_for(verb, wanted), group="steer")

    async def _freeze_for(self, verb: Verb, wanted: Sequence[TaskFilter]) -> None:
        named: list[FrozenTask] = []
        are_first = False
        try:
            for one in wanted:
                frozen = await self.requests.freeze(one, "newest")
                named += frozen.items
                are_first = are_first or frozen.is_capped
        except FAILURES as error:
            self.post_message(self.Reported(failed(verb, str(error))))
        else:
            self.post_message(self.Named(verb, named, are_first))

    def on_steering_actions_named(self, event: Named) -> None:
        """Carry out the verb on the tasks that the server named."""
        if event.tasks:
            self._plan(event.verb, event.tasks, are_first=event.are_first)
        else:
            self.tell(Report(f"no tasks left to {event.verb}", ok=False))

    def _ask(self, planned: Plan) -> None:
        def answered(agreed: bool | None) -> None:  # noqa: FBT001 - Textual calls it with the dialog's result
            if agreed:
                self.show_report_of(self.ctx.executor.carry_out(planned))

        self.app.push_screen(Confirm(planned, self.ctx.glyphs), answered)
