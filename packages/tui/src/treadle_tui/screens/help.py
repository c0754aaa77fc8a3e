"""Every key, made of the registry of actions."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from treadle.filters import KEYS
from treadle_tui.core.actions import ACTIONS, Scope
from treadle_tui.core.text import Span, Spans
from treadle_tui.widgets.reader import Reader

_HEADS: dict[Scope, str] = {
    "queues": "Queues",
    "tasks": "Tasks",
    "workers": "Workers",
    "targets": "Targets",
    "events": "Events",
    "attention": "Attention",
    "detail": "A task",
    "everywhere": "Everywhere",
}


def help_lines(*, read_only: bool) -> list[Spans]:
    """Return the help: every action by where its key works, then the filter language."""
    lines: list[Spans] = []
    for scope, title in _HEADS.items():
        lines += [(Span(title, "title"),)]
        for action in ACTIONS:
            if scope in action.scopes:
                off = read_only and action.writes
                lines.append(
                    (
                        Span(f"  {action.keycap:<8}", "faint" if off else "accent"),
                        Span(f"{action.label:<11}", "plain"),
                        Span(action.help + (" Off: read-only." if off else ""), "dim"),
                    )
                )
        lines.append(())
    lines.append((Span("The filter", "title"),))
    lines += [(Span(f"  {key + ':':<8}", "accent"), Span(text, "dim")) for key, text in KEYS.items()]
    lines.append((Span("  Other words are looked for in ids, payloads and errors; quotes keep spaces.", "dim"),))
    return lines


class Help(ModalScreen[None]):
    """Shows it; any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss_help", show=False),
    ]

    def __init__(self, *, read_only: bool) -> None:
        super().__init__()
        self._reader = Reader(id="help")
        self._read_only = read_only

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield self._reader

    def on_mount(self) -> None:
        """Write the text."""
        self._reader.entitle((Span("Help", "title"),), (Span("esc close", "dim"),))
        self._reader.show(help_lines(read_only=self._read_only))
        self._reader.focus()

    def action_dismiss_help(self) -> None:
        """Close."""
        self.dismiss()
