"""The tasks that the reader has marked, by id: also those that no window holds."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from treadle.wire.status import Status


class TaskRef(Protocol):
    """What must be known of a task to act on it; a `TaskItem` is one, and a `FrozenTask` that was never loaded."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def status(self) -> Status:
        """Its status when it was last seen."""

    @property
    def version(self) -> int:
        """Its version then."""

    @property
    def job_name(self) -> str:
        """The full name of its job."""


class Marks:
    """Keeps to ids: a marked task stays marked wherever the list goes, and as it was last seen."""

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
        """Mark a task, or take its mark away."""
        if self._marked.pop(choice.id, None) is None:
            self._marked[choice.id] = choice

    def add(self, choices: Iterable[TaskRef]) -> None:
        """Mark these too."""
        self._marked.update((choice.id, choice) for choice in choices)

    def follow(self, rows: Mapping[str, TaskRef]) -> None:
        """Take over what became of marked tasks that are in sight."""
        for key in self._marked.keys() & rows.keys():
            self._marked[key] = rows[key]

    def clear(self) -> None:
        """Take all marks away."""
        self._marked.clear()
