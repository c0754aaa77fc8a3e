"""Ids: new ones (UUIDv7, so that they sort by the time they were made), those that are given, and what names a run."""

from collections.abc import Callable
from functools import cache

from treadle.errors import TaskNotFound, problem_named
from treadle.wire.ids import GivenId, TaskId, WorkerId, is_uuid

RunKey = tuple[str, int]
"""A task's id and its run's number: what fences every report."""


def new_id() -> str:
    """Return a fresh UUIDv7 in its canonical text form."""
    return str(_uuid7()())


def new_task_id() -> TaskId:
    """Return a fresh UUIDv7 in its canonical text form."""
    return TaskId(new_id())


def new_worker_id() -> WorkerId:
    """Return a fresh UUIDv7 in its canonical text form."""
    return WorkerId(new_id())


@cache
def _uuid7() -> Callable[[], object]:
    # Loaded with the first id: many processes import a task and never submit one.
    from uuid_utils import uuid7

    return uuid7


def id_text(given: GivenId) -> str:
    """Return an id as the server writes it, and tells of it by."""
    return str(given).lower()


def task_id_of(given: GivenId) -> TaskId:
    """Return a task's id as the server writes it. Raises `TaskNotFound` for what is no UUID, as the server would."""
    text = id_text(given)
    if not is_uuid(text):
        raise TaskNotFound(problem_named("task-not-found", f"{text[:80]!r} is no task's id: that is a UUID"))
    return TaskId(text)
