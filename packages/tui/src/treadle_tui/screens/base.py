"""What all full screens share: the status bar, the banner, the keys, and the actions that work everywhere."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Input

from treadle_tui import guard
from treadle_tui.bindings import bindings
from treadle_tui.core.draw.text import Span
from treadle_tui.core.draw.wrapping import shortened
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.actions import BY_NAME, WAYS
from treadle_tui.core.verbs.plan import Report, does
from treadle_tui.core.views.mode_line import mode_line
from treadle_tui.core.views.status_bar import banner_lines, tiny_line
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.commands import CommandActions
from treadle_tui.screens.editor import EditorActions
from treadle_tui.screens.export import ExportActions
from treadle_tui.screens.help import Help
from treadle_tui.screens.steering import SteeringActions
from treadle_tui.widgets.filter_line import FilterLine
from treadle_tui.widgets.keys_line import KeysLine
from treadle_tui.widgets.search import Search
from treadle_tui.widgets.status_bar import StatusBar
from treadle_tui.widgets.styled_text import StyledText, Toned


class BaseScreen(CommandActions, SteeringActions, EditorActions, ExportActions):
    """A screen that redraws what is dirty in the model, and turns actions into requests."""

    BINDINGS = bindings("everywhere")
    AUTO_FOCUS = ""
    """Disabled: a screen that comes back keeps its focus, instead of focusing its first pane."""
    WATCHES: ClassVar[Dirty] = Dirty.ALL
    """The parts of the model that this screen shows."""

    def __init__(self, ctx: ScreenContext) -> None:
        super().__init__()
        self.ctx = ctx
        self.wants: Want | None = None
        """The subscription to keep while this screen exists."""
        self._status_bar = StatusBar(ctx)
        self._banner = StyledText(id="banner")
        self._mode = StyledText(id="mode")
        self._tiny = StyledText(id="tiny")
        self._keys = KeysLine(id="keys")
        self._is_up = False
        self._last_focused: Widget | None = None

    @property
    def focus_chain(self) -> list[Widget]:
        """Where tab leads: the panes. Input lines are opened by a key of their own, and use tab themselves."""
        return [widget for widget in super().focus_chain if not isinstance(widget, Input)]

    # Defined by each screen.

    def body(self) -> ComposeResult:
        """Yield the widgets between the status bar and the keys."""
        yield from ()

    def draw(self, dirty: Dirty) -> None:
        """Draw the parts that changed."""

    def draw_ages(self) -> None:
        """Draw what depends on the time; runs every second."""

    # Drawing.

    def compose(self) -> ComposeResult:
        """Yield the shared widgets around the screen's own."""
        yield self._mode
        yield self._status_bar
        yield self._banner
        yield from self.body()
        yield self._keys
        yield self._tiny

    def show(self, dirty: Dirty) -> None:
        """Draw what is dirty, if this screen shows it."""
        if not self._can_draw or not dirty & (self.WATCHES | Dirty.PULSE):
            return
        if dirty & (Dirty.PULSE | Dirty.LINK | Dirty.QUEUES | Dirty.WORKERS):
            self._show_frame()
        if dirty & self.WATCHES:
            self.draw(dirty)

    def tick(self) -> None:
        """Draw what depends on the time; runs every second."""
        if self._can_draw:
            self._show_frame()
            self.draw_ages()

    @property
    def _can_draw(self) -> bool:
        """Whether the screen can be drawn: it has been laid out, and is not being closed."""
        return self._is_up and self.app.is_running and self in self.app.screen_stack

    def on_screen_resume(self) -> None:
        """Subscribe and draw again: another screen in front may have subscribed to something else."""
        if self.wants is not None:
            self.ctx.feed.want(self.wants)
        self.show(Dirty.ALL)
        self.call_after_refresh(self._fit)

    def on_mount(self) -> None:
        """Draw for the first time, once the widgets exist and have their styles."""
        self.call_after_refresh(self._come_up)

    def _come_up(self) -> None:
        self._is_up = True
        self.show(Dirty.ALL)

    def on_unmount(self) -> None:
        """Drop the subscription of a closed screen."""
        if self.wants is not None:
            self.ctx.feed.leave(self.wants)

    def on_resize(self) -> None:
        """Draw for the new size, once the layout knows it."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        # A size that was too small had hidden the focused widget, and so removed the focus.
        if self.focused is None and self._last_focused is not None and self._last_focused.is_on_screen:
            self.set_focus(self._last_focused)
        self.show(Dirty.ALL)

    @property
    def is_stale(self) -> bool:
        """Whether the data on screen is out of date."""
        return self.ctx.model.is_stale

    def show_keys(self) -> None:
        """Draw the line of keys."""
        if isinstance(self.focused, Input):
            lines = (line for line in self.focused.ancestors if isinstance(line, FilterLine | Search))
            self._keys.show_words(next(lines).KEYS)
            return
        executor = self.ctx.executor
        offered = [action for action in self.ctx.offered(self.scope) if self.offers(action)]
        if self.scope in {"tasks", "detail"}:
            states = {task.status for task in self.chosen()}
            offered = [action for action in offered if does(action.name, states)]
        self._keys.show_keys(offered, self.ctx.keymap, off=executor.off())

    def offers(self, action: Action) -> bool:
        """Return whether an action's key does anything for the highlighted row; if not, the line of keys omits it."""
        return True

    def on_descendant_focus(self) -> None:
        """Show the keys of the pane that got the focus."""
        # If the focus passes through two panes, the event of the first may come last.
        self._last_focused = self.focused or self._last_focused
        self.show_keys()

    def _show_frame(self) -> None:
        model, glyphs = self.ctx.model, self.ctx.glyphs
        banner = banner_lines(model, *self.size, glyphs)
        self._banner.display = bool(banner)
        self._banner.show_all(banner)
        self._show_mode()
        self._dim(stale=self.is_stale)
        self._status_bar.show()
        self.show_keys()

    def _show_mode(self) -> None:
        ctx = self.ctx
        mode = mode_line(ctx.connection, ctx.keymap, ctx.glyphs)
        self._mode.set_class(bool(mode), "-shown")
        self._mode.show([shortened(mode, self.size.width, ellipsis=ctx.glyphs.ellipsis)])
        self._mode.set_class(ctx.connection.production, "-production")
        warning = (Span("PROD ", "bad"),) if ctx.connection.production else ()
        told = (*warning, Span("REPLAY ", "hold")) if ctx.model.is_recorded else warning
        self._tiny.show([(*told, *tiny_line(ctx.model, ctx.glyphs))])

    def _dim(self, *, stale: bool) -> None:
        if stale == self.has_class("-stale"):
            return
        self.set_class(stale, "-stale")
        # The tones have changed, so everything has to be drawn again.
        self.call_after_refresh(self._repaint)

    def _repaint(self) -> None:
        for widget in self.query(Toned):
            widget.refresh()

    # Actions.

    def act(self, name: str) -> None:
        """Carry out an action by its name in the registry; one without meaning here does nothing."""
        if BY_NAME[name].writes and (self.has_class("-flat") or self.has_class("-thin")):
            self.tell(Report("nothing was done: the window is too small to show what a key acts on", ok=False))
            return
        handler: Callable[[], None] | None = getattr(self, f"act_{name.replace('-', '_')}", None)
        if handler is not None:
            handler()
        elif name in WAYS:
            self.ctx.go(name)

    def on_grid_opened(self) -> None:
        """Open the row that was clicked."""
        self.act("open")

    def act_help(self) -> None:
        """Show every key."""
        read_only, web = self.ctx.executor.hides_writes, self.ctx.app_state.web
        self.app.push_screen(Help(self.ctx.keymap, read_only=read_only, web=web, scope=self.scope))

    def act_palette(self) -> None:
        """Open the palette."""
        self.app.action_command_palette()

    def act_back(self) -> None:
        """Go back; screens that lie on top of others override this."""

    def act_quit(self) -> None:
        """Quit."""
        self.app.exit()

    def act_suspend(self) -> None:
        """Suspend the dashboard, if a shell can resume it."""
        if guard.has_shell():
            self.app.action_suspend_process()
        else:
            self.tell(
                Report("can't suspend: no shell started the dashboard that could bring it back; q quits", ok=False)
            )

    def act_filter(self) -> None:
        """Filter the tasks, from any screen."""
        self.ctx.go("filter")

    def tell(self, report: Report) -> None:
        """Show what was done, or why not."""
        super().tell(report)
        self.draw_ages()
