"""The events screen: each transition as it happens, newest first."""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from treadle.errors import ConnectionFailed, ProblemError
from treadle.transport.answers import reading
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.events import KEPT, EventRow
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import no_events
from treadle_tui.core.views.event_columns import EVENT_COLUMNS
from treadle_tui.core.views.status_bar import UNKNOWN
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.following import FollowingScreen
from treadle_tui.widgets.filter_line import PLACEHOLDER


class Events(FollowingScreen[EventRow]):
    """Follows the stream while it is open; the cursor stays on the newest event until it is moved."""

    SCOPE: ClassVar[Scope] = "events"
    COLUMNS = EVENT_COLUMNS
    FILTERS: ClassVar[str] = PLACEHOLDER
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.EVENTS

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        super().__init__(ctx, start_at=start_at)
        self._shown: deque[EventRow] = deque(maxlen=KEPT)
        self._looked = 0
        self._asked: object = None

    def empty(self) -> Sequence[Spans]:
        """Return the text to show instead of rows."""
        return no_events(self.ctx.model, self.filter_text, self.ctx.glyphs, self.ctx.keymap)

    # The stream.

    def draw(self, dirty: Dirty) -> None:
        """Draw new events, and subscribe again after each reconnect."""
        link = self.ctx.model.link
        if link.live and link.hello is not self._asked:
            self._asked = link.hello
            self.run_worker(self._listen())
        super().draw(dirty)

    async def _listen(self) -> None:
        model, feed = self.ctx.model, self.ctx.feed
        model.events.refusal = None
        try:
            told = await feed.request("every", on=True, brief=True, **model.events.beginning)
            with reading():
                model.events.began(told["stream"], told["seq"])
        except ProblemError as refused:
            model.events.refusal = str(refused)
        except ConnectionFailed:
            return  # The next connection will be asked again.
        model.changed(Dirty.EVENTS)

    def on_unmount(self) -> None:
        """Unsubscribe when the screen is closed."""
        if self.app.is_running and self.ctx.model.link.live:
            self.app.run_worker(self._leave())

    async def _leave(self) -> None:
        try:
            await self.ctx.feed.request("every", on=False)
        except (ProblemError, ConnectionFailed):
            return  # A lost connection sends nothing anyway.

    # The list.

    def update_rows(self) -> None:
        """Show the new events that match the filter, unless the list is frozen."""
        if not self.is_frozen or not self._looked:
            self._take_new()
            self.show_newest(list(reversed(self._shown)))
        self.set_titles()

    def _take_new(self) -> None:
        events = self.ctx.model.events
        fresh = min(events.taken - self._looked, len(events.rows))
        # Index from the right, where the new rows are: most of the rows are old.
        newest = [events.rows[-place] for place in range(fresh, 0, -1)]
        everything = self.filter_text == ""
        self._shown.extend(row for row in newest if everything or row.means(self.wanted))
        self._looked = events.taken

    def narrow(self, text: str) -> None:
        """Show the kept events that match a filter."""
        before = self.wanted
        self._shown.clear()
        self._looked = 0
        super().narrow(text)
        if self.wanted is before:
            # The filter was invalid: show again what was cleared.
            self.draw(self.WATCHES)

    def set_titles(self) -> None:
        """Show how many events there are, and how many have come since the list was frozen."""
        events = self.ctx.model.events
        count = f"{len(self._shown):,}" if events.ready or events.rows else UNKNOWN
        title = [Span("6 Events", "title"), Span(f"  {count}", "dim")]
        if self.filter_text:
            title.append(Span(f" of {len(events.rows):,}", "dim"))
        waiting = events.taken - self._looked
        if self.is_frozen:
            title.append(Span(f"   frozen, {waiting:,} new since ({self.ctx.keymap.cap('freeze')})", "hold"))
        elif not self.follows:
            title.append(Span(f"   {self.ctx.keymap.cap('follow')} follow", "dim"))
        self.grid.set_titles(tuple(title), (Span(f"{self.how}   the last {KEPT:,} are kept", "dim"),))

    # Actions.

    def copied(self) -> str | None:
        """Return the id or name of the event's subject."""
        row = self.row
        return None if row is None or not row.subject else row.subject

    def act_open(self) -> None:
        """Open the event's task, queue, worker or schedule."""
        row = self.row
        if row is not None and row.kind != "gap":
            where = _WHERE[row.kind]
            self.ctx.go(where, row.subject)


_WHERE = {"task": "task", "queue": "queue", "worker": "workers", "schedule": "schedules"}
