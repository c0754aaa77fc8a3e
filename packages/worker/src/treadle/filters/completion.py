"""Completion of a filter that is being typed."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from treadle.filters.keys import GROUPS, KEYS
from treadle.filters.words import quoted
from treadle.wire.status import Status

Known = Mapping[str, Callable[[], Iterable[str]]]
"""The existing names, by the key that takes them; called only when such a word is begun."""


def complete(text: str, known: Known | None = None, *, fields: Collection[str] | None = None) -> str | None:
    """Return `text` with its last word completed, or None when there is nothing to add.

    Of the keys only those of `fields` are offered, such as `job` and `not_job`; without it, all.
    """
    # One pass: a pattern for what precedes the word would try every end of every word of a pasted text.
    word = re.split(r"\s", text)[-1]
    last = word.removeprefix("-")
    if not last or '"' in last:
        return None
    head, minus = text.removesuffix(word), word.removesuffix(last)
    key, colon, value = last.partition(":")
    if not colon:
        names = (name for name, one in KEYS.items() if name.startswith(key) and (one.negates or not minus))
        prefix = "not_" if minus else ""
        name = next((name for name in names if fields is None or prefix + name in fields), None)
        return None if name is None else f"{head}{minus}{name}:"
    if key not in KEYS:
        return None
    found = _value(key, value, known or {})
    return None if found is None else f"{head}{minus}{key}:{found}"


def _value(key: str, value: str, known: Known) -> str | None:
    if key == "status":
        given, _, part = value.rpartition(",")
        names = [*(status.value for status in Status), *GROUPS]
        found = next((name for name in names if part and name.startswith(part) and name != part), None)
        return None if found is None else f"{given + ',' if given else ''}{found}"
    if key in known:
        fitting = sorted(name for name in known[key]() if value and name.startswith(value) and name != value)
        return quoted(fitting[0]) if fitting else None
    begins = KEYS[key].begins
    return begins if begins and begins != value and begins.startswith(value) else None
