"""The contents of Rich's tables."""

from rich.markup import escape

from treadle.wire.shown import clean


def cell(text: str) -> str:
    """Return a text for a table or for markup, cleaned line by line and escaped."""
    return escape("\n".join(clean(line) for line in text.split("\n")))
