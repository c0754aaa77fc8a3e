"""What asks the server beside a screen, and tells it by message; what is typed meanwhile waits for what that opens."""

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
    """A screen whose keys ask the server: which tasks they mean, how that is told, and what it opens."""

    ctx: ScreenContext

    @dataclass
    class Told(Message):
        """Something was done beside the screen, or could not be."""

        report: Report

    # What a screen says of itself.

    def chosen(self) -> Sequence[TaskRef]:
        """Return the tasks that a key means."""
        return ()

    def unsafe(self) -> Refusal | None:
        """Return why nothing may act on what is highlighted just now, or None."""
        return None

    # What is told.

    def tell(self, report: Report) -> None:
        """Show what was done, or why not."""
        self.ctx.tell(report)

    def on_asking_screen_told(self, event: Told) -> None:
        """Show it."""
        self.tell(event.report)

    def post_error(self, error: Exception) -> None:
        """Let it be shown why what ran beside the screen came to nothing."""
        self.post_message(self.Told(Report(clean(str(error), limit=200), ok=False)))

    def tell_of(self, work: Coroutine[Any, Any, Report]) -> None:
        """Run `work` beside the screen, and tell what came of it."""
        self.run_worker(self._told(work))

    async def _told(self, work: Coroutine[Any, Any, Report]) -> None:
        self.post_message(self.Told(await work))

    # What is asked.

    @property
    def requests(self) -> TaskRequests:
        """The requests for tasks that leave the screen."""
        return TaskRequests(self.ctx.model, self.ctx.feed, self.ctx.executor)

    def open_after(self, work: Coroutine[Any, Any, None], *, group: str, elsewhere: bool = False) -> None:
        """Run `work`, which asks and then tells this screen by message; what it opens gets the keys behind it.

        `elsewhere` is what opens another program: the keys that came before it are nobody's.
        """
        worker = self.run_worker(work, exclusive=True, group=group)
        self.ctx.keys_ahead.begin(worker, self.ctx.model.clock.steady(), elsewhere=elsewhere)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Hand the keys on. The work's own messages came before this one, so its dialog is open by now."""
        if event.worker.is_finished:
            self.ctx.opened(event.worker)
