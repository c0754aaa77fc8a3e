"""The columns of the attention list."""

from treadle_tui.core.draw.columns import CellContext, Column, named
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.attention import Alert, AlertKind

_WORDS: dict[AlertKind, str] = {"failing": "queue", "failure": "error"}
_SHOWS: dict[AlertKind, str] = {"failing": "its failed tasks", "failure": "the failures"}
"""For kinds whose name is not the word to show."""


def _severity(alert: Alert, context: CellContext) -> Spans:
    glyph, word = (context.glyphs.cross, "bad") if alert.severity == "bad" else ("!", "look")
    return (Span(glyph, alert.severity), Span(f" {word}", alert.severity))


ALERT_COLUMNS: tuple[Column[Alert], ...] = (
    Column("", 6, _severity),
    Column("WHAT", 8, lambda alert, _: (Span(_WORDS.get(alert.kind, alert.kind), "dim"),), names=True),
    Column(
        "WHICH", 20, lambda alert, context: named(alert.subject, context, "bold"), keep_end=True, most=48, names=True
    ),
    Column("WHY", 24, lambda alert, context: named(alert.text, context), most=60),
    Column("ENTER SHOWS", 16, lambda alert, _: (Span(_SHOWS.get(alert.kind, f"the {alert.kind}"), "dim"),), rank=1),
)
"""The columns of the attention list, left to right."""
