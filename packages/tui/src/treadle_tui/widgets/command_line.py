"""The `:` line: a command, with its completions or its error above it."""

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input

from treadle_tui.core.draw.text import Span, Spans, clean
from treadle_tui.core.verbs.commands import Completion, History
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.line_input import LineInput, Offer, shared_beginning
from treadle_tui.widgets.styled_text import StyledText

SHOWN = 8
"""The most completions that are shown."""

KEYS = {"enter": "run", "tab": "complete", "up down": "history", "esc": "leave"}
"""The keys that work in it, for its hint."""

Completer = Callable[[str], Sequence[Completion]]


class CommandLine(ModalScreen[str | None]):
    """Closes with the typed line, or None; the screen beneath stays visible and keeps updating."""

    def __init__(self, completer: Completer, history: History, *, line: str = "", wrong: str = "") -> None:
        super().__init__()
        self._completer = completer
        self._history = history
        self._wrong = (line, wrong) if wrong else None
        self._list = StyledText(id="completions")
        self._input = LineInput(
            line,
            placeholder="a command, such as filter status:failed",
            suggester=Offer(self._first),
            compact=True,
            select_on_focus=False,
            id="command",
        )
        self._sign = StyledText(id="prompt-sign")
        self._keys = StyledText(id="command-keys")
        self._found: Sequence[Completion] = ()

    def compose(self) -> ComposeResult:
        """Yield the completions above the line."""
        with Vertical(id="command-box"):
            yield self._list
            with Horizontal(id="command-line"):
                yield self._sign
                yield self._input
            yield self._keys

    def on_mount(self) -> None:
        """Show the keys, and start at the end of the given line."""
        self._sign.show([(Span(" : ", "accent"),)])
        self._keys.show([(Span(" "), *key_words(KEYS))])
        self._history.leave()
        self.screen.set_focus(self._input)
        self._input.cursor_position = len(self._input.value)
        self._complete()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Update the completions; an error disappears once the line is changed."""
        self._complete()

    def on_line_input_refused(self, event: LineInput.Refused) -> None:
        """Show above the line why a text was left out: this box hides the screen's own notice."""
        event.stop()
        self._wrong = self._input.value, str(event)
        self._complete()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the line."""
        event.stop()
        line = event.value.strip()
        if line:
            self._history.add(line)
        self.dismiss(line or None)

    def on_key(self, event: Key) -> None:
        """Complete on tab, go through the history on up and down, leave on escape or on backspace in an empty line."""
        value = self._input.value
        match event.key:
            case "escape" | "ctrl+c":
                self.dismiss(None)
            case "backspace" if not value:
                self.dismiss(None)
            case "tab" if self._found:
                self._put(_step(value, self._found))
            case "up":
                self._put(self._history.older(value))
            case "down":
                self._put(self._history.newer(value))
            case _:
                return
        event.stop()
        event.prevent_default()

    def _first(self, line: str) -> str | None:
        """Return the first completion that starts with the line."""
        return next((found.line for found in self._completer(line) if found.line.startswith(line)), None)

    def _put(self, line: str) -> None:
        self._input.value = line
        self._input.cursor_position = len(line)

    def _complete(self) -> None:
        value = self._input.value
        self._found = self._completer(value)
        lines = [_line(found) for found in self._found[:SHOWN]]
        if len(self._found) > SHOWN:
            lines.append((Span(f"   and {len(self._found) - SHOWN} more", "faint"),))
        if self._wrong is not None and self._wrong[0] == value:
            lines = [(Span(f" {clean(self._wrong[1])}", "warn"),)]
        self._list.show_all(lines)


def _line(found: Completion) -> Spans:
    return (Span(f"   {clean(found.line):<24} ", "accent"), Span(clean(found.help), "dim"))


def _step(value: str, found: Sequence[Completion]) -> str:
    """Return the line extended by what its completions share, or else the first completion."""
    shared = shared_beginning([one.line for one in found if one.line.startswith(value)] or [found[0].line])
    return shared if len(shared) > len(value) else found[0].line
