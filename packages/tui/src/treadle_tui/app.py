"""The dashboard's Textual app: themes, redrawing ten times a second, and navigation between screens."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import App, SystemCommand
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
from treadle_tui.palette import ActionProvider, Palette
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.base import BaseScreen
from treadle_tui.screens.catalog import LIST_SCREENS
from treadle_tui.screens.detail import Detail
from treadle_tui.screens.flow import Flow
from treadle_tui.screens.main import Main
from treadle_tui.signals import end_by_signals
from treadle_tui.theme import DARK, MONO, SIXTEEN, THEMES, fitting
from treadle_tui.widgets.line_input import LineInput

FLUSH_SECONDS = 0.1
TICK_SECONDS = 1.0

OPENING_SECONDS = 1.0
"""How long a key waits for the screen that the previous key opens."""


class Dashboard(App[None]):
    """Connects a feed's model to the screens. The feed runs beside it and touches no widget."""

    TITLE = "treadle"
    ALLOW_SELECT = False
    """Textual can't select what is drawn line by line: it would copy the names of widgets. Terminals can, by shift."""
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
        """Create the dashboard for a feed and the connection behind it.

        `connect` returns the connection for another context, by the context's name.
        """
        # With NO_COLOR, Textual would only turn colours into greys; the mono theme has no colours at all.
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
        # A browser shows all colours; without a terminal, as in tests, nothing limits them.
        fits = self.is_web or not sys.stdout.isatty()
        return "dark" if fits else fitting(self.console.color_system)

    def _begin_with(self, model: Model, feed: Feed, connection: Connection, wanted: str) -> None:
        """Start over with a server, keeping nothing of the previous one: its undo history must not be applied here."""
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
        """Return the terminal driver: on Linux and macOS, `TerminalDriver` in place of Textual's own."""
        fitting = super().get_driver_class()
        if fitting.__module__ != "textual.drivers.linux_driver":
            return fitting
        from treadle_tui.driver import TerminalDriver

        return TerminalDriver

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colours for themes that don't define the dashboard's variables."""
        return DARK.variables

    def on_mount(self) -> None:
        """Push the main screen, and start the feed and the timers."""
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
        """Finish handling a key before the next one is looked at.

        Textual checks bindings only after the key has come back from the focused widget. By then the keys behind it are
        on their way too: letters of a command typed fast would act as keys of the list, and a letter would arrive
        before the backspace in front of it.
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
        """Send a key to the focused line, and wait until everything that follows from it is done."""
        # Textual stops a bubbling event at its sender. Make that the line, so that only a widget that handles the key
        # stops it.
        event.set_sender(line)
        await super().on_event(event)
        if not event.is_forwarded or await key_order.taken(event, line):
            if event.is_forwarded:
                await super().on_event(event)
            await key_order.settled(line)

    def _opened(self, worker: Worker[None]) -> None:
        self.call_later(self._take_kept, worker)

    async def _take_kept(self, worker: Worker[None]) -> None:
        """Handle the keys that were kept as if they were typed now, before any that came after them."""
        for event in self._ctx.keys_ahead.end(worker):
            await self.on_event(event)

    def _end(self, number: int) -> None:
        """Exit cleanly with the code that is usual for a program ended by a signal."""
        self.exit(return_code=128 + number)

    def _show_theme(self, _: object = None) -> None:
        self.set_class(self.theme == MONO.name, "-mono")
        self.set_class(self.theme == SIXTEEN.name, "-sixteen")

    @property
    def front_screen(self) -> BaseScreen | None:
        """The full screen in front, even when a dialog is open over it."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, BaseScreen)), None)

    @property
    def _is_behind(self) -> bool:
        """Whether the terminal has yet to take what was drawn before; only the terminal's own driver knows."""
        return getattr(self._driver, "is_behind", False)

    def flush(self) -> None:
        """Redraw what has changed since the last flush, if anything.

        Over a slow line it waits: thirty drawings may be on their way, and a key's would come behind all of them.
        """
        if self._is_behind:
            return
        dirty, front = self.model.take_dirty(), self.front_screen
        if dirty and front is not None:
            front.show(dirty)

    def tick(self) -> None:
        """Update what depends on the time; runs once a second."""
        self.model.tick()
        front, ending = self.front_screen, self.app_state.ending(self.connection)
        if front is not None and ending is not None:
            front.tell(ending)
        if front is not None and self._ctx.keys_ahead.is_late(self.model.clock.steady()):
            front.tell(Report("waiting for the server's answer; press esc to give up", ok=True))
        if front is not None and not self._is_behind:
            front.tick()
        if self.app_state.notify != "off" and not self.app_state.web:
            self._notify()

    def _notify(self) -> None:
        """Notify the terminal of tasks that have ended and of problems that need attention."""
        marks = self._main.marks
        notify(self, self.app_state.notify, self._notifier.look(marks))
        if keys := self._notifier.unseen(marks):
            self.run_worker(self._notifier.ask(keys, marks), exclusive=True, group="marks")

    def on_line_input_refused(self, event: LineInput.Refused) -> None:
        """Tell that a text was too long for a line."""
        if self.front_screen is not None:
            self.front_screen.tell(Report(str(event), ok=False))

    def action_act(self, name: str) -> None:
        """Carry out an action of the registry on the screen in front."""
        if isinstance(self.screen, BaseScreen):
            self.screen.act(name)

    def action_command_palette(self) -> None:
        """Open the palette, if a full screen is in front: a dialog or another palette has no actions to choose from."""
        if isinstance(self.screen, BaseScreen):
            self.push_screen(Palette())

    def get_system_commands(self, screen: Screen[object]) -> "list[SystemCommand]":
        """Return nothing: the palette offers the registry's actions instead."""
        return []

    def go(self, where: str, key: str | None = None) -> None:
        """Open a task, a flow or a list screen, switch the context, or go to a pane of the main screen."""
        match where, key:
            case "task", str(key):
                self.push_screen(Detail(self._ctx, key))
            case "flow", str(key):
                # The key may be "FLOW_ID TASK_ID", to start at that task.
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
        """Switch to another context's server; stay here if its configuration is invalid."""
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
