"""Every key, made of the registry of actions."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from treadle.filters import KEYS
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.verbs.actions import ACTIONS, Action
from treadle_tui.core.verbs.commands import SHORT
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.scopes import SCOPE_TITLES
from treadle_tui.widgets.reader import Reader


def help_lines(keymap: Keymap, *, read_only: bool) -> list[Spans]:
    """Return the help: every action by where its key works, then the filter language."""
    lines: list[Spans] = []
    for scope, title in SCOPE_TITLES.items():
        lines += [(Span(title, "title"),)]
        lines += [_line(action, keymap, read_only=read_only) for action in ACTIONS if scope in action.scopes]
        lines.append(())
    lines.append((Span("Commands", "title"),))
    example = Span(":pause queue @global:tasks:billing", "accent")
    lines.append((Span("  Each action is a command too, some with more behind it: ", "dim"), example))
    lines += [(Span(f"  :{short:<7}", "accent"), Span(f"short for :{name}", "dim")) for short, name in SHORT.items()]
    lines.append(())
    lines.append((Span("The filter", "title"),))
    lines += [(Span(f"  {key + ':':<8}", "accent"), Span(text, "dim")) for key, text in KEYS.items()]
    lines.append((Span("  Other words are looked for in ids, payloads and errors; quotes keep spaces.", "dim"),))
    return lines


def _line(action: Action, keymap: Keymap, *, read_only: bool) -> Spans:
    off = read_only and action.writes
    notes = (" Off: read-only." if off else "") + (" Only in a replay." if action.replay else "")
    return (
        Span(f"  {keymap.cap(action):<8} ", "faint" if off else "accent"),
        Span(f"{action.label:<12} ", "plain"),
        Span(action.help + notes, "dim"),
    )


class Help(ModalScreen[None]):
    """Shows it; any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss_help", show=False),
    ]

    def __init__(self, keymap: Keymap, *, read_only: bool) -> None:
        super().__init__()
        self._keymap = keymap
        self._reader = Reader(id="help")
        self._read_only = read_only

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield self._reader

    def on_mount(self) -> None:
        """Write the text."""
        self._reader.set_titles((Span("Help", "title"),), (Span("esc close", "dim"),))
        self._reader.show(help_lines(self._keymap, read_only=self._read_only))
        self._reader.focus()

    def action_dismiss_help(self) -> None:
        """Close."""
        self.dismiss()
