"""What all screens share: the model to read, the feed to send requests, the verbs, and the way things are drawn."""

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
    """Shared by the screens; created by the app for each server."""

    model: Model
    feed: Feed
    connection: Connection
    executor: Executor
    go: Callable[..., None]
    """Goes at once to a pane or screen by name, such as `queues`, or to a `task`, `flow` or `context` by its key.

    A message would be handled after keys that are already typed, which would then act on the previous screen.
    """
    opened: Callable[[Worker[None]], None]
    """Called when a key's request has been answered and the answer is on screen."""
    query: TaskQuery
    glyphs: Glyphs
    app_state: AppState
    """The keymap, the contexts, and the command history."""
    report: Report | None = None
    """The last report that has an outcome for each task."""
    drafts: dict[str, Written] = field(default_factory=dict)
    """Edited texts that could not be saved, by task id."""
    keys_ahead: KeysAhead = field(default_factory=KeysAhead)
    _notice: tuple[Report, float] | None = None

    @property
    def keymap(self) -> Keymap:
        """Which key does what."""
        return self.app_state.keymap

    def offered(self, scope: Scope) -> Iterator[Action]:
        """Yield the actions available in a pane or screen, given the dashboard's options and its token."""
        return offered(
            scope, read_only=self.executor.hides_writes, replay=self.model.is_recorded, web=self.app_state.web
        )

    def filter_words(self) -> Known:
        """Return the names that a filter may contain, by filter key."""
        model = self.model
        return {
            "job": model.queue_rows,
            "worker": lambda: (row.name for row in model.worker_rows().values()),
            "target": lambda: (target.name for target in model.targets.rows.values()),
            "room": lambda: (target.room_id for target in model.targets.rows.values()),
        }

    def cell_context(self) -> CellContext:
        """Return the context for drawing cells."""
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
        """Return a pane's title, with the age of its topics' data if that is over a second.

        Not in a replay: the age at the time of the recording is unknown, and a fast replay's seconds are short.
        """
        seconds = self.model.age(*topics)
        is_recorded = self.model.is_recorded and self.model.link.live
        return title if seconds is None or is_recorded else (*title, Span(f"  {lasted(seconds)} old", "warn"))

    def tell(self, report: Report) -> None:
        """Show a report for some seconds, or for as long as its action can be undone."""
        seconds = NOTICE_SECONDS
        if report.outcomes:
            self.report = report
            seconds = max(seconds, self.executor.undo_left())
        if not report.ok:
            self.keys_ahead.drop()
        self._notice = (report, self.model.clock.steady() + seconds)

    def clear_error(self) -> None:
        """Remove the notice of an error that the user has corrected."""
        if self._notice is not None and not self._notice[0].ok:
            self._notice = None

    def notice(self) -> Spans:
        """Return the current notice, with the time left to undo."""
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
