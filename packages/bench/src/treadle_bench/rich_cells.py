"""What stands in rich's tables."""

from rich.markup import escape

from treadle.wire.shown import clean


def cell(text: str) -> str:
    """Return a text for a table, or within markup: cleaned line by line, and no markup."""
    return escape("\n".join(clean(line) for line in text.split("\n")))
