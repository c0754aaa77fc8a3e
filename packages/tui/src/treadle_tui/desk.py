"""What every screen works with: the model to read, the feed to ask, the verbs, and how things are drawn."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from treadle_tui.core.actions import Action, Scope, offered
from treadle_tui.core.browse import Browse
from treadle_tui.core.columns import Context
from treadle_tui.core.feed import Feed
from treadle_tui.core.glyphs import UNICODE, Glyphs
from treadle_tui.core.model import Model
from treadle_tui.core.shell import Shell
from treadle_tui.core.steer import Report
from treadle_tui.core.steering import Steering
from treadle_tui.core.text import Span, Spans

NOTICE_SECONDS = 6.0


@dataclass
class Desk:
    """Shared by the screens; made once, by the app."""

    model: Model
    feed: Feed
    steering: Steering
    browse: Browse = field(default_factory=Browse)
    glyphs: Glyphs = UNICODE
    place: str = "local"
    """What people call the server: its host, or `local`."""
    report: Report | None = None
    """What the last action did to each task, to be looked through."""
    shell: Shell = field(default_factory=Shell)
    """The keys, the contexts, and what was typed."""
    drafts: dict[str, str] = field(default_factory=dict)
    """What was written about tasks and could not be saved, by their ids."""
    _notice: tuple[Report, float] | None = None

    def offered(self, scope: Scope) -> Iterator[Action]:
        """Yield what can be done in a pane or screen, given how the dashboard was started."""
        shell = self.shell
        return offered(scope, read_only=self.steering.read_only, replay=shell.player is not None, web=shell.web)

    def context(self) -> Context:
        """Return what the panes' cells need."""
        job = self.model.queue_rows().get(self.browse.job or "")
        return Context(
            now=self.model.time.now(),
            glyphs=self.glyphs,
            worker_name=self.model.worker_name,
            rate=job.rate if job is not None and job.state == "open" else 0.0,
        )

    def tell(self, report: Report) -> None:
        """Show what was done, or why not, for some seconds."""
        if report.outcomes:
            self.report = report
        self._notice = (report, self.model.clock.steady() + NOTICE_SECONDS)

    def notice(self) -> Spans:
        """Return what there is to tell now, with the time left to undo it."""
        if self._notice is None or self.model.clock.steady() >= self._notice[1]:
            return ()
        report = self._notice[0]
        left = self.steering.undo_left()
        undo = (Span("   u", "accent"), Span(f" undo {left:.0f}s", "dim")) if left > 0 else ()
        each = (Span("   R", "accent"), Span(" each", "dim")) if len(report.outcomes) > 1 else ()
        return (Span(report.text, "ok" if report.ok else "warn"), *each, *undo, Span(" "))
