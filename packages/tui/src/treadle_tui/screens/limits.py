"""The limits screen: how much of each is used, who waits, and which keys are busiest."""

from typing import ClassVar

from treadle_tui.core.draw.format import total
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.limits import KNOWN, LimitRow, limit_rows
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.limit_columns import LIMIT_COLUMNS
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.list_screen import ListScreen


class Limits(ListScreen[LimitRow]):
    """Every limit, with its keys beneath it."""

    SCOPE: ClassVar[Scope] = "limits"
    COLUMNS = LIMIT_COLUMNS
    FILTERS: ClassVar[str] = "filter: room:lab some text"
    FIELDS = KNOWN
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.LIMITS

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        super().__init__(ctx, start_at=start_at)
        # Subscribed only while the screen is open: the server counts the waiting tasks just for its viewers.
        self.wants = Want("limits")
        self._folded: set[str] = set()

    def update_rows(self) -> None:
        """Show the limits that match the filter."""
        table, now = self.ctx.model.limits, self.ctx.model.now()
        rows = limit_rows(table.rows.values(), self.wanted, self._folded)
        self.show_rows(rows)
        limits = [row for row in rows if not row.is_beneath]
        full = sum(row.state(now) == "full" for row in limits)
        waiting = sum(row.item.waiting for row in limits)
        waiting_words = total(waiting, capped=any(row.item.waiting_is_capped for row in limits))
        tasks = f"{waiting_words} task{'' if waiting == 1 else 's'}"
        counts = f"{len(limits):,}{self.of_all(table)}, {full:,} full, {tasks} waiting"
        self.tell_counts(table, "8 Limits", counts, f"{self.ctx.keymap.cap('open')} folds the keys")

    def copied(self) -> str | None:
        """Return the limit's name, or the key."""
        if self.row is None:
            return None
        return self.row.key.key if self.row.is_beneath and self.row.key is not None else self.row.item.name

    def offers(self, action: Action) -> bool:
        """Offer to fold keys only if there are some."""
        return super().offers(action) and (action.name != "open" or self._has_keys())

    def _has_keys(self) -> bool:
        return self.row is not None and (self.row.is_beneath or self.row.has_keys)

    def act_open(self) -> None:
        """Fold or unfold the limit's keys."""
        if (row := self.row) is not None and self._has_keys():
            self._folded ^= {row.item.id}
            self.pane.rows.find(row.item.id)
            self.draw(self.WATCHES)
