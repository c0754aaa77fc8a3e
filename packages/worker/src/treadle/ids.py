"""Ids: new ones (UUIDv7, so that they sort by creation time), those that users give, and the key of a run."""

from collections.abc import Callable
from functools import cache

from treadle.errors import TaskNotFound, problem_named
from treadle.wire.ids import GivenId, TaskId, WorkerId, is_uuid

RunKey = tuple[str, int]
"""A task's id and its run's number, by which every report is fenced."""


def new_id() -> str:
    """Return a new UUIDv7 in its canonical text form."""
    return str(_uuid7()())


def new_task_id() -> TaskId:
    """Return a new UUIDv7 in its canonical text form, to submit a task with."""
    return TaskId(new_id())


def new_worker_id() -> WorkerId:
    """Return a new UUIDv7 in its canonical text form."""
    return WorkerId(new_id())


@cache
def _uuid7() -> Callable[[], object]:
    # Imported for the first id: many processes import a task and never submit one.
    from uuid_utils import uuid7

    return uuid7


def id_text(given: GivenId) -> str:
    """Return an id as the server writes it, in lower case."""
    return str(given).lower()


def task_id_of(given: GivenId) -> TaskId:
    """Return a task's id as the server writes it. Raises `TaskNotFound` if it is not a UUID, as the server would."""
    text = id_text(given)
    if not is_uuid(text):
        raise TaskNotFound(problem_named("task-not-found", f"{text[:80]!r} is not a task id: write a UUID"))
    return TaskId(text)
