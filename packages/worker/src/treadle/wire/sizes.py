"""How a number of bytes is told to people, by the command line, the dashboard and the server alike."""

UNITS = ("B", "kB", "MB", "GB", "TB")


def amount(count: float) -> str:
    """Return a number of bytes in its largest unit, each a thousand of the one before: `812 B`, `4.1 kB`, `200 MB`."""
    unit = 0
    while count >= 999.5 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 or count >= 9.95 else f"{count:.1f} {UNITS[unit]}"
