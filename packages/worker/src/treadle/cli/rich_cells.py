"""What stands in rich's tables: apart from `show`, for rich is there only with what draws tables by it."""

from rich.markup import escape

from treadle.wire.shown import clean


def cell(text: str) -> str:
    """Return a text for a table, or within markup: cleaned line by line, and no markup."""
    return escape("\n".join(clean(line) for line in text.split("\n")))
