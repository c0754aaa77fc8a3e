"""Values that are compared: numbers, durations, and absolute or relative times."""

import re
from datetime import datetime, timedelta
from decimal import Decimal

_SIGN = re.compile(r"(<=|>=|<|>)?(.*)", re.DOTALL)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_SPAN = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T.+)?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class NotRead(ValueError):
    """A value that can't be parsed; the message says what to write."""


def sign_of(value: str) -> tuple[str, str]:
    """Return the sign before a value, or an empty text, and the value."""
    match = _SIGN.fullmatch(value)
    assert match is not None
    return match[1] or "", match[2]


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as `1h30m`; None if it is not a duration."""
    if _SPAN.fullmatch(text) is None:
        return None
    return sum((float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), 0.0)


def span_words(seconds: float) -> str:
    """Return a duration as `seconds_of` reads it, to the last digit."""
    return f"{Decimal(repr(seconds)):f}s"


def times(value: str, now: datetime) -> dict[str, datetime]:
    """Return from when and until when a time reaches, as far as it is bounded. Raises `NotRead`."""
    sign, rest = sign_of(value)
    try:
        if (ago := seconds_of(rest)) is not None:
            if not sign:
                raise NotRead(f"write <{rest} for less than that ago, >{rest} for more")
            # Rounded down to the second, so that everyone who looks now means the same.
            return {"from" if sign[0] == "<" else "until": now.replace(microsecond=0) - timedelta(seconds=ago)}
        if _MOMENT.fullmatch(rest) is None:
            raise NotRead("write <1h or >2d for how long ago, or a time like 2026-01-31 or 2026-01-31T12:00")
        return _by_the_clock(sign, rest)
    except OverflowError:
        raise NotRead(f"{rest} is beyond the calendar") from None


def _by_the_clock(sign: str, text: str) -> dict[str, datetime]:
    try:
        moment = datetime.fromisoformat(text)
        if sign:
            return {"until" if sign[0] == "<" else "from": moment.astimezone()}
        if _DAY.fullmatch(text):
            return {"from": moment.astimezone(), "until": (moment + timedelta(days=1)).astimezone()}
    except ValueError as error:
        raise NotRead(f"{text} is not a time: {error}") from None
    raise NotRead(f"write >{text} for later, <{text} for earlier")


def numbers(value: str) -> dict[str, int]:
    """Return the least and the most that a whole number may be, as far as it is bounded. Raises `NotRead`."""
    sign, rest = sign_of(value)
    if _NUMBER.fullmatch(rest) is None:
        raise NotRead("write a number like 3, >2 or <=5")
    number = int(rest)
    if sign == "<" and number == 0:
        raise NotRead("must be at least 0")
    match sign:
        case ">":
            return {"least": number + 1}
        case ">=":
            return {"least": number}
        case "<":
            return {"most": number - 1}
        case "<=":
            return {"most": number}
        case _:
            return {"least": number, "most": number}


def durations(value: str) -> dict[str, float]:
    """Return the least or the most seconds of a duration. Raises `NotRead`."""
    sign, rest = sign_of(value)
    if (seconds := seconds_of(rest)) is None or not sign:
        raise NotRead("write >5m for longer, <1m30s for shorter")
    return {"least" if sign[0] == ">" else "most": seconds}
