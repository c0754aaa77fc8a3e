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
from treadle_tui.core.verbs.actions import WAYS
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
    """A screen that reads the model when told what is dirty, and turns actions into requests."""

    BINDINGS = bindings("everywhere")
    AUTO_FOCUS = ""
    """None: a screen that comes back has the focus where it was, and not in its first pane."""
    WATCHES: ClassVar[Dirty] = Dirty.ALL
    """The parts of the model that this screen shows."""

    def __init__(self, ctx: ScreenContext) -> None:
        super().__init__()
        self.ctx = ctx
        self.wants: Want | None = None
        """What is watched for as long as this screen is there."""
        self._status_bar = StatusBar(ctx)
        self._banner = StyledText(id="banner")
        self._mode = StyledText(id="mode")
        self._tiny = StyledText(id="tiny")
        self._keys = KeysLine(id="keys")
        self._is_up = False
        self._last_focused: Widget | None = None

    @property
    def focus_chain(self) -> list[Widget]:
        """Where tab leads: the panes. A line that one types in is opened by its key, and keeps tab for itself."""
        return [widget for widget in super().focus_chain if not isinstance(widget, Input)]

    # What a screen says of itself.

    def body(self) -> ComposeResult:
        """Yield what stands between the status bar and the keys."""
        yield from ()

    def draw(self, dirty: Dirty) -> None:
        """Draw the parts that changed."""

    def draw_ages(self) -> None:
        """A second has passed: draw what tells the time."""

    # Drawing.

    def compose(self) -> ComposeResult:
        """Put the shared parts round the screen's own."""
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
        """A second has passed."""
        if self._can_draw:
            self._show_frame()
            self.draw_ages()

    @property
    def _can_draw(self) -> bool:
        """Whether there is something to draw on: not before it was laid out, and not once it is on its way out."""
        return self._is_up and self.app.is_running and self in self.app.screen_stack

    def on_screen_resume(self) -> None:
        """Watch and draw everything: while another screen was in front it may have watched something else instead."""
        if self.wants is not None:
            self.ctx.feed.want(self.wants)
        self.show(Dirty.ALL)
        self.call_after_refresh(self._fit)

    def on_mount(self) -> None:
        """Draw for the first time, for what this screen is made of is there now, and has its colours."""
        self.call_after_refresh(self._come_up)

    def _come_up(self) -> None:
        self._is_up = True
        self.show(Dirty.ALL)

    def on_unmount(self) -> None:
        """Watch no more what nobody looks at."""
        if self.wants is not None:
            self.ctx.feed.leave(self.wants)

    def on_resize(self) -> None:
        """Draw for the new size, once the layout knows it."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        # A size that was too small for it has hidden what had the focus, and so taken that away.
        if self.focused is None and self._last_focused is not None and self._last_focused.is_on_screen:
            self.set_focus(self._last_focused)
        self.show(Dirty.ALL)

    @property
    def is_stale(self) -> bool:
        """Whether what is shown is how it was, and not how it is."""
        return self.ctx.model.is_stale

    def show_keys(self) -> None:
        """Draw the last line anew."""
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
        """Return whether the key does anything for what is highlighted now: else the last line does not name it."""
        return True

    def on_descendant_focus(self) -> None:
        """Other keys work in another pane."""
        # Of two panes that had it one after the other, the first may say so last.
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
        # The tones are other ones now; what was drawn in the old ones must be drawn again.
        self.call_after_refresh(self._repaint)

    def _repaint(self) -> None:
        for widget in self.query(Toned):
            widget.refresh()

    # Actions.

    def act(self, name: str) -> None:
        """Carry out an action by its name in the registry; one that means nothing here does nothing."""
        handler: Callable[[], None] | None = getattr(self, f"act_{name.replace('-', '_')}", None)
        if handler is not None:
            handler()
        elif name in WAYS:
            self.ctx.go(name)

    def on_grid_opened(self) -> None:
        """Open what was clicked."""
        self.act("open")

    def act_help(self) -> None:
        """Show every key."""
        read_only, web = self.ctx.executor.only_looks, self.ctx.app_state.web
        self.app.push_screen(Help(self.ctx.keymap, read_only=read_only, web=web, scope=self.scope))

    def act_palette(self) -> None:
        """Find an action by its name."""
        self.app.action_command_palette()

    def act_back(self) -> None:
        """Go back; screens that stand on others know whereto."""

    def act_quit(self) -> None:
        """Leave."""
        self.app.exit()

    def act_suspend(self) -> None:
        """Leave the terminal to the shell until that wakes the dashboard; without a shell nobody ever would."""
        if guard.has_shell():
            self.app.action_suspend_process()
        else:
            self.tell(Report("no shell waits behind the dashboard, which could wake it again: q leaves it", ok=False))

    def act_filter(self) -> None:
        """Filter the tasks, from wherever one is."""
        self.ctx.go("filter")

    def tell(self, report: Report) -> None:
        """Show what was done, or why not."""
        super().tell(report)
        self.draw_ages()
