"""The logs of the tasks of a list, a queue or a worker as one, followed as they are written."""

from typing import Any, ClassVar

from treadle import filters
from treadle_tui.bindings import bindings
from treadle_tui.core.draw.text import Span, clean
from treadle_tui.core.state.logs import KEPT, LogRow, MergedLog
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.log_reader import EVERY, TASKS, LogReader
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import no_logs
from treadle_tui.core.views.log_columns import LOG_COLUMNS
from treadle_tui.core.views.pane import Pane
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.reading_screen import ReadingScreen
from treadle_tui.widgets.filter_line import FilterLine
from treadle_tui.widgets.grid import Grid


class LogGrid(Grid):
    """The lines."""

    SCOPE: Scope = "logs"
    BINDINGS = bindings("logs")


class Logs(ReadingScreen):
    """Reads while it is open; the cursor stays with the newest line until it is moved."""

    SCOPE: ClassVar[Scope] = "logs"
    FILTERS: ClassVar[bool] = True
    WATCHES: ClassVar[Dirty] = Dirty.LINK

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        """`start_at` is the filter that says whose logs are meant."""
        super().__init__(ctx)
        self._whose = start_at or ""
        self._log = MergedLog()
        counts = ctx.model.counts
        self._reader = LogReader(
            ctx.feed,
            self._log,
            filters.parse(self._whose, now=ctx.model.time.now()),
            # Without counts nothing is told of changes.
            told=lambda: counts.rows if counts.ready else object(),
            steady=ctx.model.clock.steady,
        )
        self._read_at = float("-inf")
        self._is_reading = False
        self._follows = True
        self._is_frozen = False

    def make(self) -> tuple[Pane[Any], Grid]:
        """Return the pane and its grid."""
        pane: Pane[LogRow] = Pane(
            LOG_COLUMNS,
            self.ctx.cell_context,
            empty=lambda: no_logs(ready=self.has_looked, refusal=self.refusal, text=self.filter_text),
        )
        return pane, LogGrid(pane, id="logs")

    def make_filter_line(self) -> FilterLine:
        """Return a line that takes a text, which is looked for in the lines."""
        return FilterLine(None, placeholder="find: a text in the lines")

    # The lines.

    def draw_ages(self) -> None:
        """Look for new lines, when it is time."""
        now = self.ctx.model.clock.steady()
        if self.ctx.model.link.live and not self._is_reading and now - self._read_at >= EVERY:
            self._read_at, self._is_reading = now, True
            self.run_worker(self._look_once(), group="logs")
        self.show_notice()
        self._set_titles()

    async def _look_once(self) -> None:
        """Look for new lines, one look at a time: a slow server is not asked again meanwhile."""
        try:
            await self.look(self._reader)
        finally:
            self._is_reading = False

    def draw(self, dirty: Dirty) -> None:
        """Draw the lines, and look at once for new ones when there was no look yet."""
        super().draw(dirty)
        self.draw_ages()

    def update_rows(self) -> None:
        """Show the lines that the text is in; the same ones while the list is frozen."""
        if not self._is_frozen:
            text = self.filter_text
            shown = [row for row in self._log.rows if not text or row.has(text)]
            if self._follows:
                self.pane.rows.pinned = False
            self.pane.rows.update([row.id for row in shown], {row.id: row for row in shown})
            self.pane.rows.pinned = True
        self._set_titles()

    def _set_titles(self) -> None:
        whose = clean(self._whose or "all tasks", limit=60, ascii_only=self.ctx.glyphs.ascii_only)
        more = f", the {TASKS} that changed last" if self._reader.is_capped else ""
        title = [Span("Logs", "title"), Span(f"  {whose}", "bold"), Span(f"  {self._reader.tasks} tasks{more}", "dim")]
        how = "frozen" if self._is_frozen else "follows the newest" if self._follows else "stays with the row"
        count = self.pane.rows.total
        self.grid.set_titles(
            tuple(title), (Span(f"{how}   {count:,} of {len(self._log.rows):,} lines, {KEPT:,} are kept", "dim"),)
        )

    def narrow(self, text: str) -> None:
        """Show the lines that a text is in."""
        self.filter_text = text.strip()
        if self._filter_line is not None:
            self._filter_line.put(self.filter_text)
        self.pane.rows.reset()
        self.pane.fold()
        self._follows = True
        super().draw(self.WATCHES)
        self.grid.focus()

    # What the reader does.

    def on_grid_moved(self, event: Grid.Moved) -> None:
        """In the first row the cursor follows what comes; elsewhere it stays with its line."""
        self._follows = self.pane.rows.index == 0
        self._set_titles()

    def act_follow(self) -> None:
        """Go to the newest line, and stay there."""
        self._is_frozen, self._follows = False, True
        super().draw(self.WATCHES)

    def act_freeze(self) -> None:
        """Let the list stand still, or go on."""
        self._is_frozen = not self._is_frozen
        super().draw(self.WATCHES)

    def act_back(self) -> None:
        """Take the text away, or go back to the list."""
        if self.filter_text:
            self.narrow("")
        else:
            self.post_message(self.Go("back"))

    def copied(self) -> str | None:
        """Return the line's message."""
        row: LogRow | None = self.pane.rows.highlighted
        return None if row is None else row.message

    def act_open(self) -> None:
        """Open the line's task."""
        row: LogRow | None = self.pane.rows.highlighted
        if row is not None:
            self.post_message(self.Go("task", row.task_id))
