"""What every screen works with: the model to read, the feed to ask, the verbs, and how things are drawn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from textual.worker import Worker

from treadle.filters import Known
from treadle.wire.frames import Topic
from treadle_tui.core.draw.columns import CellContext
from treadle_tui.core.draw.format import lasted
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.setup.app_state import AppState
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.state.model import Model
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.actions import offered
from treadle_tui.core.verbs.editor import Written
from treadle_tui.core.verbs.executor import Executor
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.plan import Report
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.task_query import TaskQuery
from treadle_tui.keys_ahead import KeysAhead

NOTICE_SECONDS = 6.0


@dataclass
class ScreenContext:
    """Shared by the screens; made once, by the app."""

    model: Model
    feed: Feed
    connection: Connection
    executor: Executor
    go: Callable[..., None]
    """Goes to another pane or screen, `queues` or `workers`, to a `task` or another `context` by its name, at once.

    A message would be behind the keys that are typed already, and these would act on what was left.
    """
    opened: Callable[[Worker[None]], None]
    """Hears that what a key asked for is answered, and the answer shown."""
    query: TaskQuery
    glyphs: Glyphs
    app_state: AppState
    """The keys, the contexts, and what was typed."""
    report: Report | None = None
    """What the last action did to each task, to be looked through."""
    drafts: dict[str, Written] = field(default_factory=dict)
    """What was written about tasks and could not be saved, by their ids."""
    keys_ahead: KeysAhead = field(default_factory=KeysAhead)
    _notice: tuple[Report, float] | None = None

    @property
    def keymap(self) -> Keymap:
        """Which key does what."""
        return self.app_state.keymap

    def offered(self, scope: Scope) -> Iterator[Action]:
        """Yield what can be done in a pane or screen, given how the dashboard was started and what its token may."""
        return offered(scope, read_only=self.executor.only_looks, replay=self.model.is_recorded, web=self.app_state.web)

    def filter_words(self) -> Known:
        """Return what there is that a filter may name, by the key that names it."""
        model = self.model
        return {
            "job": model.queue_rows,
            "worker": lambda: (row.name for row in model.worker_rows().values()),
            "target": lambda: (target.name for target in model.targets.rows.values()),
            "room": lambda: (target.room_id for target in model.targets.rows.values()),
        }

    def cell_context(self) -> CellContext:
        """Return what the panes' cells need."""
        return CellContext(
            now=self.model.now(),
            glyphs=self.glyphs,
            worker_name=self.model.worker_name,
            wait=self.model.seconds_to_start,
            span=self.model.span,
            open_key=self.keymap.cap("open"),
            known=self.model.link.live,
        )

    def aged(self, title: Spans, *topics: Topic) -> Spans:
        """Return a pane's title, with how old what it shows of the topics is when that is over a second.

        Of a recorded moment it is as old as it was then, which is not known: a fast player's seconds are short.
        """
        seconds = self.model.age(*topics)
        is_recorded = self.model.is_recorded and self.model.link.live
        return title if seconds is None or is_recorded else (*title, Span(f"  {lasted(seconds)} old", "warn"))

    def tell(self, report: Report) -> None:
        """Show what was done, or why not, for some seconds; of what was done to tasks, as long as it can be undone."""
        seconds = NOTICE_SECONDS
        if report.outcomes:
            self.report = report
            seconds = max(seconds, self.executor.undo_left())
        if not report.ok:
            self.keys_ahead.drop()
        self._notice = (report, self.model.clock.steady() + seconds)

    def mended(self) -> None:
        """Tell no more of what could not be done: it was, now that it is written otherwise."""
        if self._notice is not None and not self._notice[0].ok:
            self._notice = None

    def notice(self) -> Spans:
        """Return what there is to tell now, with the time left to undo it."""
        if self._notice is None or self.model.clock.steady() >= self._notice[1]:
            return ()
        report = self._notice[0]
        left = self.executor.undo_left()
        undo = (Span(f"   {self.keymap.cap('undo')}", "accent"), Span(f" undo {left:.0f}s", "dim")) if left > 0 else ()
        each = (
            (Span(f"   {self.keymap.cap('report')}", "accent"), Span(" each", "dim"))
            if len(report.outcomes) > 1
            else ()
        )
        text = self.glyphs.clean(report.text, limit=len(report.text))
        return (Span(text, "ok" if report.ok else "warn"), *each, *undo, Span(" "))
