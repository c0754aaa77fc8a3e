"""The logs of the tasks of a list, a queue or a worker, merged and followed."""

from collections.abc import Sequence
from typing import ClassVar

from treadle import filters
from treadle.wire.amounts import counted
from treadle.wire.frames import LOGGED_TASKS, Window
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.logs import LogRow, newest_first
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import no_logs
from treadle_tui.core.views.log_columns import LOG_COLUMNS
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.following import FollowingScreen
from treadle_tui.widgets.filter_line import FilterLine


class Logs(FollowingScreen[LogRow]):
    """Subscribed to while it is open; the cursor stays on the newest line until it is moved."""

    SCOPE: ClassVar[Scope] = "logs"
    COLUMNS = LOG_COLUMNS
    FILTERS: ClassVar[str] = "find text in the lines"
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.LOGS

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        """`start_at` is the filter for the tasks whose logs to show."""
        super().__init__(ctx)
        self._whose = start_at or ""
        self.wants = Want("logs", window=Window(filter=filters.parse(self._whose, now=ctx.model.time.now())))
        self._lines: list[LogRow] = []
        self._merged: object = None
        """The table's rows that the lines were made from."""

    def empty(self) -> Sequence[Spans]:
        """Return the text to show instead of rows."""
        return no_logs(self.ctx.model, self.filter_text, self.ctx.keymap)

    def make_filter_line(self) -> FilterLine:
        """Return a line for a text to find in the log lines."""
        return FilterLine(None, placeholder=self.FILTERS)

    # The lines.

    def update_rows(self) -> None:
        """Show the lines that contain the text; unchanged while the list is frozen."""
        if not self.is_frozen:
            rows, text = self.ctx.model.logs.rows, self.filter_text
            if rows is not self._merged:
                self._merged, self._lines = rows, newest_first(rows.values())
            self.show_newest([row for row in self._lines if not text or row.has(text)])
        self.set_titles()

    def set_titles(self) -> None:
        """Show whose lines these are, and how many of all."""
        table = self.ctx.model.logs
        whose = self.ctx.glyphs.clean(self._whose or "all tasks", limit=60)
        number = len({row.task_id for row in self._lines})
        tasks = f"  {counted(number, 'task')}"
        more = f", of the {LOGGED_TASKS} that run or changed last" if table.is_partial else ""
        title = (Span("Logs", "title"), Span(f"  {whose}", "bold"), Span(f"{tasks}{more}", "dim"))
        older = ", older ones are left out" if table.total_is_capped else ""
        count = f"   {self.pane.rows.total:,} of {len(self._lines):,} lines{older}"
        self.grid.set_titles(self.ctx.aged(title, "logs"), (Span(f"{self.how}{count}", "dim"),))

    def narrow(self, text: str) -> None:
        """Show the lines that contain a text."""
        self.follows = True
        self.restart(text.strip())

    # Actions.

    def act_back(self) -> None:
        """Clear the text, or go back to the list."""
        if self.filter_text:
            self.narrow("")
        else:
            self.ctx.go("back")

    def copied(self) -> str | None:
        """Return the line's message."""
        row = self.row
        return None if row is None else row.message

    def act_open(self) -> None:
        """Open the line's task."""
        row = self.row
        if row is not None:
            self.ctx.go("task", row.task_id)
