"""The help: every key, generated from the registry of actions."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from treadle.filters import KEYS
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.actions import ACTIONS
from treadle_tui.core.verbs.commands import SHORT
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.scopes import SCOPE_TITLES, Scope
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.reader import Reader
from treadle_tui.widgets.search import Search

INDENT = 24
"""The column, in cells, at which the descriptions start."""


def help_lines(keymap: Keymap, *, read_only: bool, web: bool = False) -> list[Spans]:
    """Return the help: every action, by where its key works, then the filter language."""
    lines: list[Spans] = []
    for scope, title in SCOPE_TITLES.items():
        lines += [(Span(title, "title"),)]
        lines += [_line(action, keymap, read_only=read_only, web=web) for action in ACTIONS if scope in action.scopes]
        lines.append(())
    lines.append((Span("Commands", "title"),))
    example = Span(":pause queue @global:tasks:billing", "accent")
    lines.append((Span("  Each action is also a command, and some take an argument: ", "dim"), example))
    lines += [(Span(f"  :{short:<7}", "accent"), Span(f"short for :{name}", "dim")) for short, name in SHORT.items()]
    lines.append(())
    lines.append((Span("The filter", "title"),))
    lines += [(Span(f"  {key + ':':<10}", "accent"), Span(known.means, "dim")) for key, known in KEYS.items()]
    negated = ", ".join(f"-{key}:" for key, known in KEYS.items() if known.negates)
    lines.append((Span(f"  {negated}", "accent"), Span("  the opposite.", "dim")))
    lines.append((Span("  Other words are searched for in ids, payloads and errors; quotes keep spaces.", "dim"),))
    return lines


def _line(action: Action, keymap: Keymap, *, read_only: bool, web: bool) -> Spans:
    off = " Off: read-only." if read_only and action.writes else " Off in a browser." if web and action.local else ""
    also = f" Also {', '.join(others)}." if (others := keymap.caps(action)[1:]) else ""
    notes = off + (" Only in a replay." if action.replay else "")
    return (
        Span(f"  {keymap.cap(action):<8} ", "faint" if off else "accent"),
        Span(f"{action.label:<12} ", "plain"),
        Span(action.help + also + notes, "dim"),
    )


class Help(ModalScreen[None]):
    """Shows the help over the current screen; it can be searched, and is closed by the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("q", "dismiss_help", show=False),
        Binding("question_mark", "dismiss_help", show=False, id="help"),
        Binding("slash", "find", show=False, id="filter"),
        Binding("n", "next(1)", show=False, id="next-match"),
        Binding("N", "next(-1)", show=False, id="last-match"),
    ]

    def __init__(self, keymap: Keymap, *, read_only: bool, web: bool = False, scope: Scope = "everywhere") -> None:
        super().__init__()
        self._keymap = keymap
        self._lines = help_lines(keymap, read_only=read_only, web=web)
        self._scope = scope
        self._reader = Reader(id="help", indent=INDENT)
        self._search = Search("find in the help")

    def compose(self) -> ComposeResult:
        """Yield the text, and the search line beneath it."""
        with Vertical(id="help-box"):
            yield self._reader
            yield self._search

    def on_mount(self) -> None:
        """Show the text, starting at the keys of the current pane."""
        self._reader.show(self._lines)
        self._reader.focus()
        self._show_titles()
        if self._scope != "everywhere":
            title = (Span(SCOPE_TITLES[self._scope], "title"),)
            self.call_after_refresh(self._reader.go_to_line, self._lines.index(title))

    def _show_titles(self) -> None:
        found = f"  {self._reader.found_words}" if self._reader.found_words else ""
        find, following, last = (self._keymap.cap(name) for name in ("filter", "next-match", "last-match"))
        keys = {following: "next", last: "last", "esc": "leave the search"} if found else {"esc": "close"}
        self._reader.set_titles((Span("Help", "title"), Span(found, "dim")), key_words({find: "find", **keys}))

    def action_find(self) -> None:
        """Open the search line."""
        self._search.begin()
        self._reader.set_titles((Span("Help", "title"),), key_words(Search.KEYS))

    def on_search_wanted(self, event: Search.Wanted) -> None:
        """Search for the text."""
        self._reader.focus()
        self._reader.search(event.text)
        self._show_titles()

    def action_next(self, by: int) -> None:
        """Go to the next or the previous match."""
        self._reader.next_match(by)
        self._show_titles()

    def action_leave(self) -> None:
        """End the search, or close the help."""
        if self._reader.found_words:
            self._reader.search("")
            self._show_titles()
        else:
            self.dismiss()

    def action_dismiss_help(self) -> None:
        """Close the help."""
        self.dismiss()
