"""From the text of a filter to its meaning."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from treadle.filters.keys import GROUPS, KEYS, TIMES
from treadle.filters.ranges import NotRead, durations, numbers, seconds_of, sign_of, times
from treadle.filters.words import FilterError, FilterWord, words
from treadle.filters.writing import ordered
from treadle.wire.filters import TaskFilter
from treadle.wire.reasons import reason
from treadle.wire.status import Status


def parse(text: str, *, now: datetime | None = None) -> TaskFilter:
    """Parse a filter; relative times count from `now`, by default the present.

    Raises `FilterError` for an unknown key or status, a key given twice (except status, tag and negated ones), an empty
    or malformed value, and an unclosed quote. `job:*` sets the job, to None.
    """
    found: dict[str, Any] = {}
    at: dict[str, int] = {}
    spoken: list[str] = []
    kept: set[Status] = set(Status)
    moment = now or datetime.now(UTC)
    for word in words(text):
        if word.key is None:
            spoken.append(word.value)
        elif not word.value:
            raise FilterError(f"{word.key}: needs a value: {KEYS[word.key].means}", word.at)
        elif word.key == "status":
            at.setdefault("status", word.at)
            if word.negates:
                kept -= set(_statuses(word))
            else:
                found.setdefault("status", []).extend(_statuses(word))
        else:
            for name, value in _fields(word, moment).items():
                at.setdefault(name, word.at)
                if isinstance(value, list):
                    found.setdefault(name, []).extend(value)
                elif name in found:
                    raise FilterError(f"{word.key}: is given twice", word.at)
                else:
                    found[name] = value
    if spoken:
        found["text"] = " ".join(spoken)
    if "status" in at:
        found["status"] = ordered(kept & set(found.get("status", Status)))
        if not found["status"]:
            raise FilterError("status: excludes every status: remove one of them", at["status"])
    try:
        return TaskFilter(**found)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        said = reason(first)
        raise FilterError(f"{_spoken(key)}: {said[:1].lower()}{said[1:]}", at.get(key, 0)) from None


def is_relative(text: str) -> bool:
    """Return whether a valid filter has relative times, so that it matches other tasks as time passes."""
    return any(word.key in TIMES and seconds_of(sign_of(word.value)[1]) is not None for word in words(text))


def _fields(word: FilterWord, now: datetime) -> Mapping[str, Any]:
    """Return the fields of `TaskFilter` that a word sets; lists are appended to what is there."""
    assert word.key is not None
    if word.negates:
        return {f"not_{word.key}": [word.value]}
    if word.key == "tag":
        return {"tag": [word.value]}
    if word.key == "job" and word.value == "*":
        return {"job": None}
    try:
        if word.key in TIMES:
            return {f"{word.key}_{side}": value for side, value in times(word.value, now).items()}
        if word.key == "tries":
            return {f"{side}_tries": value for side, value in numbers(word.value).items()}
        if word.key == "duration":
            return {f"{side}_seconds": value for side, value in durations(word.value).items()}
    except NotRead as error:
        raise FilterError(f"{word.key}: {error}", word.at) from None
    return {word.key: word.value}


def _statuses(word: FilterWord) -> Iterator[Status]:
    for name in word.value.split(","):
        if name in GROUPS:
            yield from GROUPS[name]
            continue
        try:
            yield Status(name)
        except ValueError:
            known = ", ".join([*(status.value for status in Status), *GROUPS])
            raise FilterError(f'there is no status "{name}"; write one of {known}', word.at) from None


def _spoken(field: str) -> str:
    """Return the key that sets a field."""
    name = field.removeprefix("not_")
    if name.endswith("_seconds"):
        return "duration"
    return "tries" if name.endswith("_tries") else name.partition("_")[0]
