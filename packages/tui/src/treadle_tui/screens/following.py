"""What the lists share that grow at their head: the cursor follows the newest row, and the list may stand still."""

from collections.abc import Sequence

from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.list_screen import ListScreen, Row
from treadle_tui.widgets.grid import Grid


class FollowingScreen(ListScreen[Row]):
    """A list in which the cursor stays with the newest row until it is moved."""

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        super().__init__(ctx, start_at=start_at)
        self.follows = True
        self.is_frozen = False

    def set_titles(self) -> None:
        """Tell what is shown, and `how`."""
        raise NotImplementedError

    @property
    def how(self) -> str:
        """What becomes of the cursor, and of what comes."""
        return "frozen" if self.is_frozen else "follows the newest" if self.follows else "stays with the row"

    def show_newest(self, rows: Sequence[Row]) -> None:
        """Show rows, the newest first."""
        if self.follows:
            self.pane.rows.pinned = False
        self.show_rows(rows)
        self.pane.rows.pinned = True

    def draw_ages(self) -> None:
        """Tell how old what is shown is, and what was done; the rows have no ages."""
        self.show_notice()
        self.set_titles()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        """In the first row the cursor follows what comes; elsewhere it stays with its row."""
        self.follows = self.pane.rows.index == 0
        self.set_titles()

    def act_follow(self) -> None:
        """Go to the newest row, and stay there."""
        self.is_frozen, self.follows = False, True
        self.draw(self.WATCHES)

    def act_freeze(self) -> None:
        """Let the list stand still, or go on."""
        self.is_frozen = not self.is_frozen
        self.draw(self.WATCHES)
