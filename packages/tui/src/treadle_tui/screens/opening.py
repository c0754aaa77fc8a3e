"""What asks the server before it can open a dialog: what is typed meanwhile waits for that dialog."""

from collections.abc import Coroutine
from typing import Any

from textual.screen import Screen
from textual.worker import Worker

from treadle_tui.screen_context import ScreenContext


class OpeningActions(Screen[None]):
    """A screen whose keys open something that is not there at once."""

    ctx: ScreenContext

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
