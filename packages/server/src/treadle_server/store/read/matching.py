"""A `TaskFilter` applied to a task in memory, with the same results as `filters.py` in SQL."""

from collections.abc import Callable, Collection
from datetime import timedelta
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from pydantic_core import from_json

from treadle.wire.filters import TIMES, TaskFilter, has_error
from treadle.wire.ids import is_uuid
from treadle.wire.tags import Entry, entries
from treadle.wire.tags import wanted as wanted_entries
from treadle_server.domain.tasks import Task
from treadle_server.store.read.filters import UNLIKE, bounds_of, ids_from, visibility_of

Matches = Callable[[Task], bool]


def matcher(wanted: TaskFilter) -> Matches | None:
    """Return a function that tells whether a task matches; None when only the database can tell.

    A text is searched in payloads as the database stores them, by its own rules for upper and lower case; and only the
    database knows workers' names and failures' groups.
    """
    if wanted.text is not None or wanted.failure is not None or not all(map(is_uuid, wanted.named_workers)):
        return None
    parts = _parts(wanted)
    if not parts:
        return lambda _task: True
    return parts[0] if len(parts) == 1 else lambda task: all(part(task) for part in parts)


_EQUAL = {"job": "job_name", "room": "room", "target": "target", "worker": "worker_id"}
"""The fields of a task that must equal these parts of a filter."""


def _parts(wanted: TaskFilter) -> list[Matches]:
    parts: list[Matches] = []
    if wanted.status is not None:
        parts.append(_is_one_of(wanted.status, attrgetter("status")))
    for name, column in _EQUAL.items():
        if (value := getattr(wanted, name)) is not None:
            parts.append(_is_one_of({value}, attrgetter(column)))
    for beginning, of_task in ((wanted.id, "id"), (wanted.flow, "flow_id")):
        if beginning is not None:
            parts.append(_is_within(ids_from(beginning), attrgetter(of_task)))
    parts += [_has(tag) for tag in wanted.tag or ()]
    parts += [_is_bounded(compare, _BOUNDED[of], value) for compare, of, value in bounds_of(wanted)]
    if wanted.error is not None:
        parts.append(partial(_has_error, wanted.error))
    parts += _unlike(wanted)
    if (visibility := visibility_of(wanted)) is not None:
        parts.append(lambda task: visibility.admits(task.room))
    return parts


def _is_within(ids: tuple[str, str], of: Callable[[Task], str | None]) -> Matches:
    first, last = ids
    return lambda task: (one := of(task)) is not None and first <= one <= last


def _has(tag: str) -> Matches:
    having = frozenset(wanted_entries(tag))
    return lambda task: task.tags is not None and not having.isdisjoint(_entries(task.tags))


def _has_error(wanted: str, task: Task) -> bool:
    return has_error(wanted, task.error, task.reason)


def _took(task: Task) -> timedelta | None:
    return None if task.completed_at is None or task.started_at is None else task.completed_at - task.started_at


_BOUNDED: dict[str, Callable[[Task], Any]] = {
    **{column: attrgetter(column) for column in TIMES.values()},
    "tries": lambda task: task.run_id + 1,
    "took": _took,
}


def _is_bounded(compare: Callable[[Any, Any], bool], of: Callable[[Task], Any], bound: Any) -> Matches:
    return lambda task: (value := of(task)) is not None and compare(value, bound)


def _unlike(wanted: TaskFilter) -> list[Matches]:
    found: list[Matches] = []
    for name, column in UNLIKE.items():
        if unwanted := getattr(wanted, name):
            found.append(_is_not(_is_one_of(unwanted, attrgetter(column))))
    found += [_is_not(_has(tag)) for tag in wanted.not_tag or ()]
    found += [_is_not(partial(_has_error, error)) for error in wanted.not_error or ()]
    return found


def _is_one_of(values: Collection[str], of: Callable[[Task], str | None]) -> Matches:
    meant = frozenset(values)
    return lambda task: of(task) in meant


def _is_not(part: Matches) -> Matches:
    return lambda task: not part(task)


@lru_cache(maxsize=1024)
def _entries(tags: str) -> frozenset[Entry]:
    """Return all entries by which tags (JSON text) are found. Cached, because many tasks have the same tags."""
    return frozenset(entries(from_json(tags)))
