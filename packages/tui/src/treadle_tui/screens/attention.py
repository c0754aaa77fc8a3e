"""The attention list: what wants a look, the worst first; enter goes there."""

from typing import Any, ClassVar

from treadle_tui.core.actions import Scope
from treadle_tui.core.attention import Concern
from treadle_tui.core.concern_columns import CONCERN_COLUMNS
from treadle_tui.core.model import Dirty
from treadle_tui.core.pane import Pane
from treadle_tui.core.text import Span
from treadle_tui.keys import bindings
from treadle_tui.screens.listing import Listing
from treadle_tui.screens.words import no_concerns
from treadle_tui.widgets.grid import Grid


class ConcernGrid(Grid):
    """What wants a look."""

    SCOPE: Scope = "attention"
    BINDINGS = bindings("attention")


class Attention(Listing):
    """Everything of the strip's box, in full."""

    SCOPE: ClassVar[Scope] = "attention"
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.QUEUES | Dirty.WORKERS | Dirty.TARGETS | Dirty.SCHEDULES

    def make(self) -> tuple[Pane[Any], Grid]:
        """Return the pane and its grid."""
        pane: Pane[Concern] = Pane(
            CONCERN_COLUMNS, self.desk.context, empty=lambda: no_concerns(self.desk.model, self.desk.glyphs)
        )
        return pane, ConcernGrid(pane, id="concerns")

    def settle(self) -> None:
        """Show what there is."""
        found = self.desk.model.concerns()
        self.pane.rows.settle([concern.id for concern in found], {concern.id: concern for concern in found})
        bad = sum(concern.gravity == "bad" for concern in found)
        count = f"  {len(found)}, {bad} bad" if found else ""
        self.grid.entitle((Span("! Attention", "title"), Span(count, "dim")), (Span("enter goes there", "dim"),))

    def copied(self) -> str | None:
        """Return the name of what wants a look."""
        concern: Concern | None = self.pane.rows.highlighted
        return None if concern is None else concern.subject

    def act_open(self) -> None:
        """Go to what wants a look."""
        concern: Concern | None = self.pane.rows.highlighted
        if concern is not None:
            self.post_message(self.Go(_WHERE[concern.place], concern.key))


_WHERE = {
    "queue": "queue",
    "failures": "failures",
    "worker": "workers",
    "target": "targets",
    "schedule": "schedules",
    "task": "task",
}
