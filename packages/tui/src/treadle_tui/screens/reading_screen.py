"""What screens share whose rows are read again and again, because nothing pushes them."""

from typing import Protocol

from treadle.errors import ConnectionFailed, ProblemError
from treadle_tui.core.draw.text import clean
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.list_screen import ListScreen


class Reader(Protocol):
    """What asks the server."""

    async def look(self) -> object:
        """Look once. Raises `ProblemError` or `ConnectionFailed`."""


class ReadingScreen(ListScreen):
    """A list that says why it can't be read, until it can."""

    def __init__(self, ctx: ScreenContext, *, start_at: str | None = None) -> None:
        """`start_at` is the row that one came for."""
        super().__init__(ctx, start_at=start_at)
        self.has_looked = False
        """Whether the server has answered, be it a refusal."""
        self.refusal: str | None = None
        """Why it refused to, the last time that it was asked."""

    async def look(self, reader: Reader) -> None:
        """Let the reader look, and draw what it has found, or why it may not."""
        try:
            await reader.look()
            self.refusal = None
        except ProblemError as refused:
            self.refusal = clean(str(refused), limit=200)
        except ConnectionFailed:
            return  # The banner says so; the next connection is asked.
        self.has_looked = True
        # Not `self.draw`, by which a screen looks again.
        ListScreen.draw(self, self.WATCHES)
