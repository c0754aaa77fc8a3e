"""The columns of the attention list."""

from treadle_tui.core.attention import Concern, Place
from treadle_tui.core.columns import Column, Context
from treadle_tui.core.text import Span, Spans, clean

_KINDS: dict[Place, str] = {
    "queue": "queue",
    "failures": "queue",
    "worker": "worker",
    "target": "target",
    "schedule": "schedule",
    "task": "task",
}
_SHOWS: dict[Place, str] = {
    "queue": "the queue",
    "failures": "its failed tasks",
    "worker": "the worker",
    "target": "the target",
    "schedule": "the schedule",
    "task": "the task",
}


def gravity(concern: Concern, context: Context) -> Span:
    """Return the sign of how bad it is."""
    return Span(context.glyphs.cross if concern.gravity == "bad" else "!", concern.gravity)


def _gravity(concern: Concern, context: Context) -> Spans:
    word = "bad" if concern.gravity == "bad" else "look"
    return (gravity(concern, context), Span(f" {word}", concern.gravity))


def _subject(concern: Concern, context: Context) -> Spans:
    return (Span(clean(concern.subject, ascii_only=context.glyphs.ascii_only), "bold"),)


def _text(concern: Concern, context: Context) -> Spans:
    return (Span(clean(concern.text, ascii_only=context.glyphs.ascii_only)),)


CONCERN_COLUMNS: tuple[Column[Concern], ...] = (
    Column("", 6, _gravity),
    Column("WHAT", 8, lambda concern, _: (Span(_KINDS[concern.place], "dim"),)),
    Column("WHICH", 20, _subject, keep_end=True, most=48),
    Column("WHY", 26, _text, most=60),
    Column("ENTER SHOWS", 16, lambda concern, _: (Span(_SHOWS[concern.place], "dim"),), rank=1),
)
"""The attention list from left to right."""
