"""How messages tell numbers that somebody has set, lengths of time and counts: as they are, not in powers of ten."""


def amount(number: float) -> str:
    """Return a number in up to twelve digits: `1500000`, `0.1`. Python's `:g` would say `1.5e+06`."""
    return f"{number:.12g}"


def in_seconds(seconds: float) -> str:
    """Return a length of time: `2592000 s`, `1.5 s`."""
    return f"{amount(seconds)} s"


def counted(count: int, word: str) -> str:
    """Return `1 task`, `3,000 tasks`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
