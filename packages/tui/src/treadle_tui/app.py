"""The dashboard's app: the themes, the one flush ten times a second, and the way between the screens."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.screen import Screen
from textual.worker import Worker

from treadle.errors import TreadleError
from treadle_tui.core.browse import Browse
from treadle_tui.core.config import ConfigError
from treadle_tui.core.feed import Feed
from treadle_tui.core.glyphs import ASCII, UNICODE
from treadle_tui.core.model import Model
from treadle_tui.core.shell import Shell
from treadle_tui.core.sitting import Sitting
from treadle_tui.core.steer import Report
from treadle_tui.core.steering import Steering
from treadle_tui.desk import Desk
from treadle_tui.palette import ActionProvider
from treadle_tui.screens.board import Board
from treadle_tui.screens.detail import Detail
from treadle_tui.screens.main import Main
from treadle_tui.screens.panes import PANES
from treadle_tui.signals import end_by_signals
from treadle_tui.theme import DARK, MONO, SIXTEEN, THEMES, fitting

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
        production: bool = False,
        ascii_only: bool = False,
        room: str | None = None,
        wanted: str = "",
        theme: str | None = None,
        sitting: Sitting | None = None,
        shell: Shell | None = None,
        reach: Callable[[str], Sitting] | None = None,
    ) -> None:
        """Take the feed of `sitting`; without one, `place`, `room`, `read_only` and `production` describe the server.

        `reach` finds the sitting of another context by its name.
        """
        # Textual would turn colours to greys; the theme for terminals without colours has none to begin with.
        no_color = os.environ.pop("NO_COLOR", None)
        super().__init__()
        for known in THEMES.values():
            self.register_theme(known)
        self.shell = shell or Shell()
        self.shell.themes = tuple(THEMES)
        self.shell.web = self.is_web
        self._reach = reach
        self._ascii_only = ascii_only
        self._feeding: Worker[None] | None = None
        self.theme = THEMES[theme or self._fitting_theme(no_color=bool(no_color))].name
        by_hand = Sitting(link=feed.link, place=place, room=room, read_only=read_only, production=production)
        self._sit(model, feed, sitting or by_hand, wanted)
        self.set_keymap(self.shell.keymap.own)

    def _fitting_theme(self, *, no_color: bool) -> str:
        if no_color:
            return "mono"
        # A browser shows all colours, and a test's screen is none.
        fits = self.is_web or not sys.stdout.isatty()
        return "dark" if fits else fitting(self.console.color_system)

    def _sit(self, model: Model, feed: Feed, sitting: Sitting, wanted: str = "") -> None:
        """Begin anew with a server: nothing of the last one is kept, least of all what could be undone there."""
        shell = self.shell
        shell.context, shell.production = sitting.context, sitting.production
        shell.player, shell.recorder = sitting.player, sitting.recorder
        self.model, self.feed = model, feed
        feed.asks_access = sitting.read_only and sitting.player is None
        self._desk = Desk(
            model=model,
            feed=feed,
            steering=Steering(model, feed, read_only=sitting.read_only),
            browse=Browse(room=sitting.room, text=wanted),
            glyphs=ASCII if self._ascii_only else UNICODE,
            place=sitting.place,
            shell=shell,
        )
        self._main = Main(self._desk)

    def get_driver_class(self) -> type[Driver]:
        """Return what drives the terminal: in the place of Textual's own for Linux and macOS, ours."""
        fitting = super().get_driver_class()
        if fitting.__module__ != "textual.drivers.linux_driver":
            return fitting
        from treadle_tui.driver import TerminalDriver

        return TerminalDriver

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the tones for themes that are not ours."""
        return DARK.variables

    def on_mount(self) -> None:
        """Put the main screen up, and start the feed and the clocks."""
        self.set_class(self._ascii_only, "-ascii")
        self._dress()
        self.theme_changed_signal.subscribe(self, self._dress)
        self.push_screen(self._main)
        self._feeding = self.run_worker(self.feed.run(), name="feed")
        self.set_interval(FLUSH_SECONDS, self.flush, name="flush")
        self.set_interval(TICK_SECONDS, self.tick, name="tick")
        if not self.is_headless:
            end_by_signals(self._end)

    def _end(self, number: int) -> None:
        """Leave in good order, as programs do that a signal ended."""
        self.exit(return_code=128 + number)

    def _dress(self, _: object = None) -> None:
        self.set_class(self.theme == MONO.name, "-mono")
        self.set_class(self.theme == SIXTEEN.name, "-sixteen")

    @property
    def board(self) -> Board | None:
        """The full screen in front, also when a dialog stands over it."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, Board)), None)

    def flush(self) -> None:
        """Draw what changed since the last time; nothing when nothing did."""
        dirty, board = self.model.take_dirty(), self.board
        if dirty and board is not None:
            board.show(dirty)

    def tick(self) -> None:
        """A second has passed."""
        self.model.tick()
        board = self.board
        if board is not None:
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

    def on_commanded_wish(self, event: Board.Wish) -> None:
        """Do what was commanded."""
        match event.what:
            case "filter":
                self._home()
                self._main.narrow(event.value)
            case "queue":
                self._home()
                self._main.select(event.value)
                self._main.focus_pane("tasks")
            case "open":
                self.push_screen(Detail(self._desk, event.value))
            case "theme":
                self._turn_to(event.value)
            case "context":
                self._move(event.value)
            case verb:
                assert self.board is not None
                self.board.run_worker(self.board.pause_queue(event.value, paused=verb == "pause"))

    def _turn_to(self, theme: str) -> None:
        """Show it in a theme's colours; the next one's when none is named."""
        names = list(THEMES)
        now = next((index for index, name in enumerate(names) if THEMES[name].name == self.theme), -1)
        chosen = theme or names[(now + 1) % len(names)]
        self.theme = THEMES[chosen].name
        if self.board is not None:
            self.board.tell(Report(f"theme {chosen}", ok=True))

    def _move(self, context: str) -> None:
        """Leave this server for another context's; stay where it can't be reached for what the file says."""
        assert self._reach is not None
        assert self.board is not None
        try:
            sitting = self._reach(context)
        except (ConfigError, TreadleError) as error:
            self.board.tell(Report(str(error), ok=False))
            return
        if self._feeding is not None:
            self._feeding.cancel()
        self._home()
        model = Model(sitting.clock)
        self._sit(model, Feed(model, sitting.link), sitting)
        self.switch_screen(self._main)
        self._feeding = self.run_worker(self.feed.run(), name="feed")

    def _home(self) -> None:
        while self.screen is not self._main and len(self.screen_stack) > 2:
            self.pop_screen()
