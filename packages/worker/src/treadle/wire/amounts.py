"""Formats amounts for people, in the same way on the command line, in the dashboard and in the server."""

from collections.abc import Sequence
from math import floor

_UNITS = ("B", "kB", "MB", "GB", "TB")


def amount(number: float) -> str:
    """Return a number in up to twelve digits: `1500000`, `0.1`. Python's `:g` gives `1.5e+06`."""
    return f"{number:.12g}"


def in_seconds(seconds: float) -> str:
    """Return a length of time: `2592000 s`, `1.5 s`."""
    return f"{amount(seconds)} s"


def counted(count: int, word: str) -> str:
    """Return `1 task`, `3,000 tasks`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names, as many as are told, and how many there are beside them: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def percent(share: float) -> str:
    """Return a share of a whole, `99%`, rounded down: only a finished whole is `100%`."""
    return f"{floor(round(min(1.0, max(0.0, share)) * 100, 9))}%"


def in_bytes(count: float) -> str:
    """Return a number of bytes in its largest unit, each a thousand of the one before: `812 B`, `4.1 kB`, `200 MB`."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 or count >= 9.95 else f"{count:.1f} {_UNITS[unit]}"
