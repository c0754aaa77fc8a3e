"""The dashboard's app: the themes, the one flush ten times a second, and the way between the screens."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.command import CommandPalette
from textual.driver import Driver
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import Worker

from treadle.errors import TreadleError
from treadle_tui import key_order
from treadle_tui.core.draw.glyphs import ASCII, UNICODE
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.setup.app_state import AppState
from treadle_tui.core.setup.config import ConfigError
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.state.model import Model
from treadle_tui.core.verbs.executor import Executor
from treadle_tui.core.verbs.plan import Report
from treadle_tui.core.views.task_query import TaskQuery
from treadle_tui.external import notify
from treadle_tui.notifier import Notifier
from treadle_tui.palette import ActionProvider
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.base import BaseScreen
from treadle_tui.screens.catalog import LIST_SCREENS
from treadle_tui.screens.detail import Detail
from treadle_tui.screens.flow import Flow
from treadle_tui.screens.main import Main
from treadle_tui.signals import end_by_signals
from treadle_tui.theme import DARK, MONO, SIXTEEN, THEMES, fitting

FLUSH_SECONDS = 0.1
TICK_SECONDS = 1.0

OPENING_SECONDS = 1.0
"""How long a key waits for the screen that the one before it opens."""


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
        connection: Connection,
        *,
        ascii_only: bool = False,
        wanted: str = "",
        theme: str | None = None,
        app_state: AppState | None = None,
        connect: Callable[[str], Connection] | None = None,
    ) -> None:
        """Take a feed, and the connection that it is fed by.

        `connect` finds the connection of another context by its name.
        """
        # Textual would turn colours to greys; the theme for terminals without colours has none to begin with.
        no_color = os.environ.pop("NO_COLOR", None)
        super().__init__()
        for known in THEMES.values():
            self.register_theme(known)
        self.app_state = app_state or AppState()
        self.app_state.web = self.is_web
        self._connect = connect
        self._ascii_only = ascii_only
        self._feeding: Worker[None] | None = None
        self.theme = THEMES[theme or self._fitting_theme(no_color=bool(no_color))].name
        self._begin_with(model, feed, connection, wanted)
        self.set_keymap(self.app_state.keymap.own)

    def _fitting_theme(self, *, no_color: bool) -> str:
        if no_color:
            return "mono"
        # A browser shows all colours, and a test's screen is none.
        fits = self.is_web or not sys.stdout.isatty()
        return "dark" if fits else fitting(self.console.color_system)

    def _begin_with(self, model: Model, feed: Feed, connection: Connection, wanted: str) -> None:
        """Begin anew with a server: of the last one nothing is kept, least of all what could be undone there."""
        self.model, self.feed, self.connection = model, feed, connection
        model.is_recorded = connection.player is not None
        feed.asks_access = not model.is_recorded
        self._ctx = ScreenContext(
            model=model,
            feed=feed,
            connection=connection,
            executor=Executor(model, feed, read_only=connection.read_only),
            go=self.go,
            opened=self._opened,
            query=TaskQuery(room=connection.room, text=wanted, now=model.time.now),
            glyphs=ASCII if self._ascii_only else UNICODE,
            app_state=self.app_state,
        )
        self._main = Main(self._ctx)
        self._notifier = Notifier(model, feed)

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
        self._show_theme()
        self.theme_changed_signal.subscribe(self, self._show_theme)
        self.push_screen(self._main)
        self._feeding = self.run_worker(self.feed.run(), name="feed")
        self.set_interval(FLUSH_SECONDS, self.flush, name="flush")
        self.set_interval(TICK_SECONDS, self.tick, name="tick")
        if not self.is_headless:
            end_by_signals(self._end)

    async def on_event(self, event: events.Event) -> None:
        """Let a key do what it is bound to before the next one is looked at.

        Textual looks for bindings when a key has come back from the focused widget, and by then the ones behind it are
        on their way there as well: the letters of a command that was typed fast would be keys of the list, and a letter
        would be there before the backspace in front of it.
        """
        if key_order.is_old(event):
            return
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded and self._ctx.keys_ahead.keep(event):
            return
        if isinstance(event, events.Key) and not event.is_forwarded:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.screen._mounted_event.wait(), OPENING_SECONDS)  # noqa: SLF001 - nothing public waits
            if isinstance(self.focused, Input):
                await self._type(event, self.focused)
                return
            if await self._check_bindings(event.key):
                return
        await super().on_event(event)

    async def _type(self, event: events.Key, line: Input) -> None:
        """Let the line in focus have a key, and wait for all that comes of it."""
        # Textual stops what comes up to whoever sent it; only who takes the key is to do that.
        event.set_sender(line)
        await super().on_event(event)
        if not event.is_forwarded or await key_order.taken(event, line):
            if event.is_forwarded:
                await super().on_event(event)
            await key_order.settled(line)

    def _opened(self, worker: Worker[None]) -> None:
        self.call_later(self._take_kept, worker)

    async def _take_kept(self, worker: Worker[None]) -> None:
        """Take what was kept as typed now, before what comes behind it."""
        for event in self._ctx.keys_ahead.end(worker):
            await self.on_event(event)

    def _end(self, number: int) -> None:
        """Leave in good order, as programs do that a signal ended."""
        self.exit(return_code=128 + number)

    def _show_theme(self, _: object = None) -> None:
        self.set_class(self.theme == MONO.name, "-mono")
        self.set_class(self.theme == SIXTEEN.name, "-sixteen")

    @property
    def front_screen(self) -> BaseScreen | None:
        """The full screen in front, also when a dialog stands over it."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, BaseScreen)), None)

    def flush(self) -> None:
        """Draw what changed since the last time; nothing when nothing did."""
        dirty, front = self.model.take_dirty(), self.front_screen
        if dirty and front is not None:
            front.show(dirty)

    def tick(self) -> None:
        """A second has passed."""
        self.model.tick()
        front, ending = self.front_screen, self.app_state.ending(self.connection)
        if front is not None and ending is not None:
            front.tell(ending)
        if front is not None and self._ctx.keys_ahead.is_late(self.model.clock.steady()):
            front.tell(Report("waiting for the server's answer; esc gives it up", ok=True))
        if front is not None:
            front.tick()
        if self.app_state.notify != "off" and not self.app_state.web:
            self._notify()

    def _notify(self) -> None:
        """Tell the terminal what has ended and what needs attention."""
        marks = self._main.marks
        notify(self, self.app_state.notify, self._notifier.look(marks))
        if keys := self._notifier.unseen(marks):
            self.run_worker(self._notifier.ask(keys, marks), exclusive=True, group="marks")

    def action_act(self, name: str) -> None:
        """Carry out an action of the registry on the screen in front."""
        if isinstance(self.screen, BaseScreen):
            self.screen.act(name)

    def action_command_palette(self) -> None:
        """Open the palette over a screen of ours: over a dialog, or another palette, there is nothing to choose from.

        It has no id, unlike Textual's: one may be there still, beneath what its command has opened a moment later.
        """
        if isinstance(self.screen, BaseScreen):
            self.push_screen(CommandPalette(placeholder="Search for commands"))

    def get_system_commands(self, screen: Screen[object]) -> "list[SystemCommand]":
        """Return none: the palette offers the registry's actions."""
        return []

    def go(self, where: str, key: str | None = None) -> None:
        """Go where a screen's reader wants to."""
        match where, key:
            case "task", str(key):
                self.push_screen(Detail(self._ctx, key))
            case "flow", str(key):
                # Behind the flow's id may stand that of the task to begin at.
                flow_id, _, task_id = key.partition(" ")
                self.push_screen(Flow(self._ctx, flow_id, start_at=task_id or None))
            case "context", str(name):
                self._switch_context(name)
            case pane, key if pane in LIST_SCREENS:
                if not isinstance(self.front_screen, LIST_SCREENS[pane]):
                    self._home()
                    self.push_screen(LIST_SCREENS[pane](self._ctx, start_at=key))
            case "back", _:
                self.pop_screen()
            case _:
                self._home()
                self._show_on_main(where, key)

    def _show_on_main(self, where: str, key: str | None) -> None:
        match where, key:
            case "queue", str(job):
                self._main.select(job)
            case "tasks", str(job):
                self._main.select(job)
                self._main.focus_pane("tasks")
            case "filter", str(text):
                self._main.narrow(text)
            case "filter", None:
                self._main.act_filter()
            case "view", str(text):
                self._main.narrow_everywhere(text)
            case "failed", str(job):
                self._main.narrow(f'job:"{job}" status:failed')
            case pane, _:
                self._main.focus_pane(pane)

    def _switch_context(self, context: str) -> None:
        """Leave this server for another context's; stay where it can't be reached for what the file says."""
        assert self._connect is not None
        assert self.front_screen is not None
        try:
            connection = self._connect(context)
        except (ConfigError, TreadleError) as error:
            self.front_screen.tell(Report(str(error), ok=False))
            return
        if self._feeding is not None:
            self._feeding.cancel()
        self._home()
        model = Model(connection.clock, self._ctx.model.sealer)
        before = self._ctx.query
        self._begin_with(model, Feed(model, connection.link), connection, before.text)
        self._ctx.query.take_order(before.order)
        self.switch_screen(self._main)
        self._feeding = self.run_worker(self.feed.run(), name="feed")

    def _home(self) -> None:
        while self.screen is not self._main and len(self.screen_stack) > 2:
            self.pop_screen()
