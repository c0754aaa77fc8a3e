"""Lists what an action did to each of its tasks."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from treadle.wire.amounts import counted
from treadle.wire.status import Status
from treadle_tui.core.draw.format import short_id
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone, clean
from treadle_tui.core.verbs.plan import Outcome, Report
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.reader import Reader

INDENT = 12
"""The indentation of wrapped lines, so that the sign and the short id stand out."""


class Outcomes(ModalScreen[None]):
    """Lists every task of a report, with those that were not changed first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", show=False),
        Binding("R", "dismiss", show=False, id="report"),
    ]

    def __init__(self, report: Report, glyphs: Glyphs) -> None:
        super().__init__()
        self._report = report
        self._glyphs = glyphs
        # Wrapped, because the reason comes last and matters most.
        self._reader = Reader(id="outcomes", indent=INDENT)

    def compose(self) -> ComposeResult:
        """Yield the list."""
        yield self._reader

    def on_mount(self) -> None:
        """Fill the list."""
        left = sum(not outcome.ok for outcome in self._report.outcomes)
        done = len(self._report.outcomes) - left
        not_done = f", {left:,} skipped" if left else ""
        self._reader.set_titles(
            (Span("What was done", "title"), Span(f"  {counted(done, 'task')}{not_done}", "dim")),
            key_words({"esc enter": "close"}),
        )
        self._reader.show(outcome_lines(self._report, self._glyphs))
        self._reader.focus()


def outcome_lines(report: Report, glyphs: Glyphs) -> list[Spans]:
    """Return a line for each task, with its full id; those that were not changed come first."""
    return [_line(outcome, glyphs) for outcome in sorted(report.outcomes, key=lambda outcome: outcome.ok)]


def _line(outcome: Outcome, glyphs: Glyphs) -> Spans:
    glyph = glyphs.task[Status.COMPLETED] if outcome.ok else glyphs.cross
    tone: Tone = "ok" if outcome.ok else "warn"
    return (
        Span(f" {glyph} ", tone),
        Span(f"{short_id(outcome.id)} ", "accent"),
        Span(f"{clean(outcome.id)}  ", "faint"),
        Span(glyphs.clean(outcome.text, limit=300), "plain" if outcome.ok else "warn"),
    )
