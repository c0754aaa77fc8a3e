"""From a filter back to its text."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from treadle.filters.keys import GROUPS, KEYS, TIMES
from treadle.filters.ranges import span_words
from treadle.filters.words import quoted
from treadle.wire.filters import TaskFilter
from treadle.wire.status import Status


def ordered(statuses: Iterable[Status]) -> list[Status]:
    """Return the statuses without repetition, in the order of a task's life."""
    given = set(statuses)
    return [status for status in Status if status in given]


def write(task_filter: TaskFilter) -> str:
    """Return the text that `parse` reads as `task_filter`."""
    parts = [f"{key}:{value}" for key in KEYS for value in _values(task_filter, key)]
    for key, known in KEYS.items():
        if known.negates and key != "status":
            parts += [f"-{key}:{quoted(value)}" for value in getattr(task_filter, f"not_{key}") or ()]
    if task_filter.text is not None:
        parts.append(quoted(task_filter.text, alone=True))
    return " ".join(parts)


def _values(task_filter: TaskFilter, key: str) -> Iterator[str]:
    if key in TIMES:
        yield from _times(getattr(task_filter, f"{key}_from"), getattr(task_filter, f"{key}_until"))
    elif key == "tries":
        yield from _bounds(task_filter.least_tries, task_filter.most_tries)
    elif key == "duration":
        least, most = task_filter.least_seconds, task_filter.most_seconds
        yield from (f"{sign}{span_words(n)}" for sign, n in ((">", least), ("<", most)) if n is not None)
    elif key == "status":
        if task_filter.status is not None:
            yield _status_words(task_filter.status)
    elif key == "tag":
        yield from map(quoted, task_filter.tag or ())
    elif (value := getattr(task_filter, key)) is not None:
        yield quoted(value)


def _times(since: datetime | None, until: datetime | None) -> Iterator[str]:
    for sign, moment in ((">", since), ("<", until)):
        if moment is not None:
            yield f"{sign}{moment.astimezone(UTC).isoformat()}"


def _bounds(least: int | None, most: int | None) -> Iterator[str]:
    for sign, number in ((">=", least), ("<=", most)):
        if number is not None:
            yield f"{sign}{number}"


def _status_words(statuses: list[Status]) -> str:
    for name, group in GROUPS.items():
        if set(statuses) == group:
            return name
    return ",".join(status.value for status in statuses)
