"""What a `TaskFilter` means for a task in memory: the same as `filters.py` says in SQL."""

from collections.abc import Callable
from functools import lru_cache

from pydantic_core import from_json

from treadle.wire.tags import Entry, entries
from treadle.wire.tags import wanted as wanted_entries
from treadle.wire.tasks import TaskFilter
from treadle_server.domain.tasks import Task
from treadle_server.store.read.filters import ids_from, sight_of

Matches = Callable[[Task], bool]


def matcher(wanted: TaskFilter) -> Matches | None:
    """Return what says whether a task matches; None when only the database can say that.

    A text is looked for in payloads as the database keeps them, and in either case as the database understands that.
    """
    if wanted.text is not None:
        return None
    parts = _parts(wanted)
    if not parts:
        return _everything
    return parts[0] if len(parts) == 1 else lambda task: all(part(task) for part in parts)


def _everything(_task: Task) -> bool:
    return True


def _parts(wanted: TaskFilter) -> list[Matches]:
    parts: list[Matches] = []
    if (status := wanted.status) is not None:
        statuses = frozenset(status)
        parts.append(lambda task: task.status in statuses)
    if (job := wanted.job) is not None:
        parts.append(lambda task: task.job_name == job)
    if (room := wanted.room) is not None:
        parts.append(lambda task: task.room == room)
    if (target := wanted.target) is not None:
        parts.append(lambda task: task.target == target)
    if (worker := wanted.worker) is not None:
        parts.append(lambda task: task.worker_id == worker)
    if wanted.id is not None:
        first, last = ids_from(wanted.id)
        parts.append(lambda task: first <= task.id <= last)
    if wanted.tag is not None:
        having = frozenset(wanted_entries(wanted.tag))
        parts.append(lambda task: task.tags is not None and not having.isdisjoint(_entries(task.tags)))
    if (sight := sight_of(wanted)) is not None:
        parts.append(lambda task: sight.admits(task.room))
    return parts


@lru_cache(maxsize=1024)
def _entries(tags: str) -> frozenset[Entry]:
    """Return all by which tags, as JSON text, are found: many tasks have the same."""
    return frozenset(entries(from_json(tags)))
