"""Which JSON values can be stored: the one rule that the SDK checks before it sends, and the server for each item.

A value is bad if JSON can't carry it or one of the databases can't store it: a NUL character, a lone surrogate, a
number that is not finite or has more than 4,300 digits, and more than 64 levels of arrays and objects, counted from the
value itself. `Unread` replaces, in a parsed frame, a value that could not be read at all.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_LEVELS = 64
"""How deep arrays and objects may be nested."""

MOST_VALUES = 1_000_000
"""The most values of a request or a frame, names included: a million block the event loop for a tenth of a second."""

MOST_DIGITS = 4300
"""The most digits of a number: what Python reads and writes by default, and every database stores."""

LEAST_INTEGER = -(2**63)
"""The smallest of the protocol's own integers, which are signed 64-bit numbers."""

MOST_INTEGER = 2**63 - 1
"""The largest of them."""

AROUND_VALUES = 8
"""Levels of a request around the values in it, more than any request has."""

REQUEST_LEVELS = MOST_LEVELS + AROUND_VALUES
"""How deep a request as a whole may be nested; the models check each value in it."""

_BEYOND = 10**MOST_DIGITS
_BELOW = -_BEYOND
"""Computed once: negating 4,300 digits takes a third of the time of checking a number."""
_LONGEST_PLACE = 100

NUL = "a NUL character, which can't be stored; remove it"
"""Why a text with a NUL character is refused."""
SURROGATE = "a lone surrogate, which is not valid text; send valid Unicode"
"""Why a text with a lone surrogate is refused."""
NOT_FINITE = "a number that is not finite (NaN, an infinity, or beyond ±1.8e308); send null or a text"
"""Why NaN, an infinity, and a number that overflows to one are refused."""
TOO_LONG = f"a number of more than {MOST_DIGITS:,} digits; send it as a text"
"""Why a number with too many digits is refused."""
TOO_DEEP = f"more than {MOST_LEVELS} levels of arrays and objects; send shallower data, or a text"
"""Why a value that is nested too deeply is refused."""
NO_JSON = "which is not JSON"
"""Why a value that is not JSON is refused; follows its type."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A placeholder in parsed JSON for a value that can't be read; `why` is one of the reasons of this module."""

    why: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A bad value: where it is, such as `result.pages[3].text`, and what is wrong with it."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}" if self.place else self.why

    def within(self, place: str) -> "Fault":
        """Return the fault with its place extended by an outer `place`, which may be words: "step 'charge'"."""
        joint = "." if place and self.place and not self.place.startswith("[") else ""
        return Fault(f"{place}{joint}{self.place}", self.why)


class BadValue(ValueError):
    """A value that can't be stored; `fault` says where and why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def has_too_many(text: bytes) -> bool:
    """Return whether a JSON text has more than `MOST_VALUES` values, before it is parsed."""
    if len(text) <= MOST_VALUES or _marks(text) <= MOST_VALUES:
        return False
    # Marks within strings don't count; an escaped quote does not end a string.
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    return plain.count(b'"') > 2 * MOST_VALUES or _marks(b"".join(plain.split(b'"')[::2])) > MOST_VALUES


def _marks(text: bytes) -> int:
    """Return the number of characters that precede a value or follow a name."""
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def is_kept(value: Any, levels: int = MOST_LEVELS) -> bool:
    """Return whether a value of dicts, lists, texts, numbers, booleans and None can be stored, without saying why not.

    It goes level by level and checks all texts joined, in a little more than half the time of checking each text.
    """
    level, texts = [value], []
    for depth in range(levels + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is dict:
                if depth == levels:
                    return False
                texts.extend(item)
                below.extend(item.values())
            elif kind is list:
                if depth == levels:
                    return False
                below.extend(item)
            elif kind is int:
                if not _BELOW < item < _BEYOND:
                    return False
            elif kind is float:
                if not math.isfinite(item):
                    return False
            elif item is not None and kind is not bool:
                if _why(item, levels - depth) is not None:
                    return False
                # An instance of a subclass, such as a member of an enumeration.
                if isinstance(item, dict):
                    texts.extend(item)
                    below.extend(item.values())
                elif isinstance(item, list):
                    below.extend(item)
        if not below:
            break
        level = below
    try:
        return _is_text("".join(texts))
    except TypeError:
        # A key that is not a string.
        return False


def _is_text(text: str) -> bool:
    if "\x00" in text:
        return False
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def fault(value: Any, place: str = "", levels: int = MOST_LEVELS) -> Fault | None:
    """Return the first part of a value that can't be stored, or None; `place` is the value's name in messages."""
    if is_kept(value, levels):
        return None
    while (why := _why(value, levels)) is None:
        if isinstance(value, dict):
            if (found := _fault_of_keys(value)) is not None:
                return Fault(_shortened(place), found)
            keys, within = list(value), list(value.values())
            number = _first_bad(within, levels)
            place = _inside(place, keys[number])
        else:
            within = value
            number = _first_bad(within, levels)
            place = f"{place}[{number}]"
        value, levels = within[number], levels - 1
    return Fault(_shortened(place), why)


def below(parts: Sequence[int | str], found: Fault) -> Fault:
    """Return a fault with its place as seen from outside: `parts`, such as `("tasks", 3)`, lead to the value."""
    place = ""
    for part in parts:
        place = _inside(place, part) if isinstance(part, str) else f"{place}[{part}]"
    return Fault(_shortened(found.within(place).place), found.why)


def _fault_of_keys(value: dict[Any, Any]) -> str | None:
    for key in value:
        why = f"{type(key).__name__}, {NO_JSON}" if not isinstance(key, str) else _why(key, 1)
        if why is not None:
            return f"the key {ascii(key)[:60]}: {why}"
    return None


def _first_bad(values: list[Any], levels: int) -> int:
    """Return the index of the first bad value, by bisection: no more work than checking all of them twice."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        if is_kept(values[low:middle], levels):
            low = middle
        else:
            high = middle
    return low


def _inside(where: str, key: str) -> str:
    name = key if key.isidentifier() else f"[{key!r}]"
    return f"{where}.{name}" if where and key.isidentifier() else f"{where}{name}"


def _shortened(place: str) -> str:
    return place if len(place) <= _LONGEST_PLACE else f"{place[:_LONGEST_PLACE]}…"


def _why(item: Any, levels: int) -> str | None:
    """Return what is wrong with the value itself, apart from its contents."""
    match item:
        case Unread():
            return item.why
        case str():
            return NUL if "\x00" in item else None if _is_text(item) else SURROGATE
        case dict() | list():
            return TOO_DEEP if levels <= 0 else None
        case float():
            return None if math.isfinite(item) else NOT_FINITE
        case int():
            return None if _BELOW < item < _BEYOND else TOO_LONG
        case None:
            return None
        case _:
            return f"{type(item).__name__}, {NO_JSON}"


__all__ = [
    "AROUND_VALUES",
    "LEAST_INTEGER",
    "MOST_DIGITS",
    "MOST_INTEGER",
    "MOST_LEVELS",
    "MOST_VALUES",
    "NOT_FINITE",
    "NO_JSON",
    "NUL",
    "TOO_DEEP",
    "TOO_LONG",
    "BadValue",
    "Fault",
    "Unread",
    "below",
    "fault",
    "has_too_many",
    "is_kept",
]
