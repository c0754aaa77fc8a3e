"""Requests that run in the background of a screen; keys typed meanwhile wait for the dialog that these open."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from textual.message import Message
from textual.screen import Screen
from textual.worker import Worker

from treadle_tui.core.draw.text import clean
from treadle_tui.core.state.marks import TaskRef
from treadle_tui.core.verbs.plan import Refusal, Report
from treadle_tui.core.verbs.requests import TaskRequests
from treadle_tui.screen_context import ScreenContext


class AskingScreen(Screen[None]):
    """A screen whose keys send requests: which tasks they act on, and how results are reported."""

    ctx: ScreenContext

    @dataclass
    class Reported(Message):
        """A background action was done, or failed."""

        report: Report

    # Defined by each screen.

    def chosen(self) -> Sequence[TaskRef]:
        """Return the tasks that a key acts on."""
        return ()

    def unsafe(self) -> Refusal | None:
        """Return why nothing may act on the highlighted row right now, or None if it may."""
        return None

    # Reports.

    def tell(self, report: Report) -> None:
        """Show what was done, or why not."""
        self.ctx.tell(report)

    def on_asking_screen_reported(self, event: Reported) -> None:
        """Show the report."""
        self.tell(event.report)

    def post_error(self, error: Exception) -> None:
        """Show why a background action failed."""
        self.post_message(self.Reported(Report(clean(str(error), limit=200), ok=False)))

    def show_report_of(self, work: Coroutine[Any, Any, Report]) -> None:
        """Run `work` in the background, and show its report."""
        self.run_worker(self._reported(work))

    async def _reported(self, work: Coroutine[Any, Any, Report]) -> None:
        self.post_message(self.Reported(await work))

    # Requests.

    @property
    def requests(self) -> TaskRequests:
        """The requests for single tasks."""
        return TaskRequests(self.ctx.model, self.ctx.feed, self.ctx.executor)

    def open_after(self, work: Coroutine[Any, Any, None], *, group: str, elsewhere: bool = False) -> None:
        """Run `work`, which sends requests and posts a message; the dialog this opens gets keys typed meanwhile.

        `elsewhere` means that it opens another program, so that keys typed before that are dropped.
        """
        worker = self.run_worker(work, exclusive=True, group=group)
        self.ctx.keys_ahead.begin(worker, self.ctx.model.clock.steady(), elsewhere=elsewhere)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Pass on the kept keys. The work's own messages were handled before this one, so its dialog is open by now."""
        if event.worker.is_finished:
            self.ctx.opened(event.worker)
