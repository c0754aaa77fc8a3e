"""The columns of the attention list."""

from treadle_tui.core.draw.columns import CellContext, Column, named
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.state.attention import Alert, AlertKind

_WORDS: dict[AlertKind, str] = {
    "queue": "queue",
    "failing": "queue",
    "failure": "error",
    "worker": "worker",
    "target": "target",
    "schedule": "schedule",
    "task": "task",
}
_SHOWS: dict[AlertKind, str] = {
    "queue": "the queue",
    "failing": "its failed tasks",
    "failure": "the failures",
    "worker": "the worker",
    "target": "the target",
    "schedule": "the schedule",
    "task": "the task",
}


def severity(alert: Alert, context: CellContext) -> Span:
    """Return the sign of how bad it is."""
    return Span(context.glyphs.cross if alert.severity == "bad" else "!", alert.severity)


def _severity(alert: Alert, context: CellContext) -> Spans:
    word = "bad" if alert.severity == "bad" else "look"
    return (severity(alert, context), Span(f" {word}", alert.severity))


ALERT_COLUMNS: tuple[Column[Alert], ...] = (
    Column("", 6, _severity),
    Column("WHAT", 8, lambda alert, _: (Span(_WORDS[alert.kind], "dim"),), names=True),
    Column(
        "WHICH", 20, lambda alert, context: named(alert.subject, context, "bold"), keep_end=True, most=48, names=True
    ),
    Column("WHY", 24, lambda alert, context: named(alert.text, context), most=60),
    Column("ENTER SHOWS", 16, lambda alert, _: (Span(_SHOWS[alert.kind], "dim"),), rank=1),
)
"""The attention list from left to right."""
