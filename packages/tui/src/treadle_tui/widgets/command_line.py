"""The `:` line: a command with its completions over it, and what is wrong with it."""

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
"""How many completions there is room for."""

KEYS = {"enter": "do it", "tab": "complete", "up down": "earlier", "esc": "leave"}
"""What works in it."""

Completer = Callable[[str], Sequence[Completion]]


class CommandLine(ModalScreen[str | None]):
    """Answers the line that was typed, or None; the screen beneath stays in sight and goes on."""

    def __init__(self, completer: Completer, history: History, *, line: str = "", wrong: str = "") -> None:
        super().__init__()
        self._completer = completer
        self._history = history
        self._wrong = (line, wrong) if wrong else None
        self._list = StyledText(id="completions")
        self._input = LineInput(
            line,
            placeholder="a command, as filter status:failed",
            suggester=Offer(self._first),
            compact=True,
            select_on_focus=False,
            id="command",
        )
        self._sign = StyledText(id="prompt-sign")
        self._keys = StyledText(id="command-keys")
        self._found: Sequence[Completion] = ()

    def compose(self) -> ComposeResult:
        """Put the completions over the line."""
        with Vertical(id="command-box"):
            yield self._list
            with Horizontal(id="command-line"):
                yield self._sign
                yield self._input
            yield self._keys

    def on_mount(self) -> None:
        """Begin behind what is there."""
        self._sign.show([(Span(" : ", "accent"),)])
        self._keys.show([(Span(" "), *key_words(KEYS))])
        self._history.leave()
        self.screen.set_focus(self._input)
        self._input.cursor_position = len(self._input.value)
        self._complete()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Complete anew; what was wrong with the line before is no longer said."""
        self._complete()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer the line."""
        event.stop()
        line = event.value.strip()
        if line:
            self._history.add(line)
        self.dismiss(line or None)

    def on_key(self, event: Key) -> None:
        """Complete by tab, look back by the arrows, leave by escape or by rubbing out nothing."""
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
        """Return the first completion that goes on as the line does."""
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
    """Return the line as far as all that go on like it agree; the first one when that is no further."""
    shared = shared_beginning([one.line for one in found if one.line.startswith(value)] or [found[0].line])
    return shared if len(shared) > len(value) else found[0].line
