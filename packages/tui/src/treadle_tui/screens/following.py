"""What lists share that grow at the top: the cursor follows the newest row, and the list can be frozen."""

from collections.abc import Sequence

from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.list_screen import ListScreen, Row
from treadle_tui.widgets.grid import Grid


class FollowingScreen(ListScreen[Row]):
    """A list in which the cursor stays on the newest row until it is moved."""

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        super().__init__(ctx, start_at=start_at)
        self.follows = True
        self.is_frozen = False

    def set_titles(self) -> None:
        """Show what the list contains, and `how`."""
        raise NotImplementedError

    @property
    def how(self) -> str:
        """How the list and the cursor behave, for the title."""
        return "frozen" if self.is_frozen else "follows the newest" if self.follows else "stays on the row"

    def show_newest(self, rows: Sequence[Row]) -> None:
        """Show rows, which are sorted newest first."""
        if self.follows:
            self.pane.rows.pinned = False
        self.show_rows(rows)
        self.pane.rows.pinned = True

    def draw_ages(self) -> None:
        """Update the notice and the titles; the rows have no ages."""
        self.show_notice()
        self.set_titles()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        """Follow the newest row while the cursor is on it; elsewhere, keep the cursor on its row."""
        self.follows = self.pane.rows.index == 0
        self.set_titles()

    def act_follow(self) -> None:
        """Go to the newest row, and follow it."""
        self.is_frozen, self.follows = False, True
        self.draw(self.WATCHES)

    def act_freeze(self) -> None:
        """Freeze the list, or let it continue."""
        self.is_frozen = not self.is_frozen
        self.draw(self.WATCHES)
