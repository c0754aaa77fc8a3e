"""The tasks that the user has marked, by id, including those outside the loaded window."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from treadle.wire.status import Status


class TaskRef(Protocol):
    """What must be known of a task to act on it: a loaded `TaskItem`, or a `FrozenTask` that was never loaded."""

    @property
    def id(self) -> str:
        """The task's id."""

    @property
    def status(self) -> Status:
        """Its status when last seen."""

    @property
    def version(self) -> int:
        """Its version when last seen."""

    @property
    def job_name(self) -> str:
        """The full name of its job."""


class Marks:
    """Marks tasks by id, so that a task stays marked, as last seen, wherever the list scrolls."""

    def __init__(self) -> None:
        self._marked: dict[str, TaskRef] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._marked

    def covers(self, keys: Iterable[str]) -> bool:
        """Return whether all of these are marked."""
        return all(key in self._marked for key in keys)

    def __len__(self) -> int:
        return len(self._marked)

    def __iter__(self) -> Iterator[TaskRef]:
        return iter(self._marked.values())

    def turn(self, choice: TaskRef) -> None:
        """Mark a task, or unmark it."""
        if self._marked.pop(choice.id, None) is None:
            self._marked[choice.id] = choice

    def add(self, choices: Iterable[TaskRef]) -> None:
        """Mark these as well."""
        self._marked.update((choice.id, choice) for choice in choices)

    def follow(self, rows: Mapping[str, TaskRef]) -> None:
        """Update the marked tasks that are among these rows."""
        for key in self._marked.keys() & rows.keys():
            self._marked[key] = rows[key]

    def clear(self) -> None:
        """Remove all marks."""
        self._marked.clear()
