"""How messages tell a number that somebody has set, and a length of time: as it is, and not rounded to six digits."""


def amount(number: float) -> str:
    """Return a number in up to twelve digits: `1500000`, `0.1`. Python's `:g` would say `1.5e+06`."""
    return f"{number:.12g}"


def in_seconds(seconds: float) -> str:
    """Return a length of time: `2592000 s`, `1.5 s`."""
    return f"{amount(seconds)} s"
