"""The dashboard's app: the themes, the one flush ten times a second, and the way between the screens."""

from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.screen import Screen

from treadle_tui.core.browse import Browse
from treadle_tui.core.feed import Feed
from treadle_tui.core.glyphs import ASCII, UNICODE
from treadle_tui.core.model import Model
from treadle_tui.core.steering import Steering
from treadle_tui.desk import Desk
from treadle_tui.palette import ActionProvider
from treadle_tui.screens.board import Board
from treadle_tui.screens.detail import Detail
from treadle_tui.screens.main import Main
from treadle_tui.screens.panes import PANES
from treadle_tui.theme import DARK, LIGHT

FLUSH_SECONDS = 0.1
TICK_SECONDS = 1.0


class Dashboard(App[None]):
    """Connects a feed's model to the screens. The feed runs beside it and touches no widget."""

    TITLE = "treadle"
    CSS_PATH: ClassVar[list[str | Path]] = ["css/frame.tcss", "css/screens.tcss"]  # type: ignore[assignment]
    COMMANDS = {ActionProvider}  # noqa: RUF012 - Textual's own form
    HORIZONTAL_BREAKPOINTS = [(0, "-thin"), (60, "-narrow"), (100, "-normal"), (160, "-broad")]  # noqa: RUF012 - Textual's own form
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (15, "-low"), (30, "-normal-height")]  # noqa: RUF012 - Textual's own form

    def __init__(
        self,
        model: Model,
        feed: Feed,
        *,
        place: str = "local",
        read_only: bool = False,
        ascii_only: bool = False,
        room: str | None = None,
        wanted: str = "",
    ) -> None:
        super().__init__()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name
        self.model = model
        self.feed = feed
        self._ascii_only = ascii_only
        self._desk = Desk(
            model=model,
            feed=feed,
            steering=Steering(model, feed, read_only=read_only),
            browse=Browse(room=room, text=wanted),
            glyphs=ASCII if ascii_only else UNICODE,
            place=place,
        )
        self._main = Main(self._desk)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the tones for themes that are not ours."""
        return DARK.variables

    def on_mount(self) -> None:
        """Put the main screen up, and start the feed and the clocks."""
        self.set_class(self._ascii_only, "-ascii")
        self.push_screen(self._main)
        self.run_worker(self.feed.run(), name="feed")
        self.set_interval(FLUSH_SECONDS, self.flush, name="flush")
        self.set_interval(TICK_SECONDS, self.tick, name="tick")

    @property
    def board(self) -> Board | None:
        """The full screen in front, also when a dialog stands over it."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, Board)), None)

    def flush(self) -> None:
        """Draw what changed since the last time; nothing when nothing did."""
        board = self.board
        dirty = self.model.take_dirty()
        if dirty and board is not None and board.is_mounted:
            board.show(dirty)

    def tick(self) -> None:
        """A second has passed."""
        self.model.tick()
        board = self.board
        if board is not None and board.is_mounted:
            board.tick()

    def action_act(self, name: str) -> None:
        """Carry out an action of the registry on the screen in front."""
        if isinstance(self.screen, Board):
            self.screen.act(name)

    def get_system_commands(self, screen: Screen[object]) -> "list[SystemCommand]":
        """Return none: the palette offers the registry's actions."""
        return []

    def on_board_go(self, event: Board.Go) -> None:
        """Go where a screen's reader wants to."""
        match event.where, event.key:
            case "task", str(key):
                self.push_screen(Detail(self._desk, key))
            case pane, key if pane in PANES:
                if not isinstance(self.board, PANES[pane]):
                    self._home()
                    self.push_screen(PANES[pane](self._desk, reach=key))
            case "back", _:
                self.pop_screen()
            case "worker", str(key):
                self._home()
                self._main.narrow(f"worker:{key}")
            case "queue", str(key):
                self._home()
                self._main.select(key)
            case "failures", str(key):
                self._home()
                self._main.narrow(f'job:"{key}" status:failed')
            case "filter", _:
                self._home()
                self._main.edit_filter()
            case where, _:
                self._home()
                self._main.focus_pane(where)

    def _home(self) -> None:
        while self.screen is not self._main and len(self.screen_stack) > 2:
            self.pop_screen()
