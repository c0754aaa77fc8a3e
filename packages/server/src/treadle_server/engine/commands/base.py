"""What a command is: it declares what it needs to have read, and then changes the unit of work or refuses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import Refused, TaskNotFound, TreadleError

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Command(Protocol[R_co]):
    """One request to the writer. `apply` checks everything before it changes anything."""

    def reads(self, reads: ReadSet) -> None:
        """Add to `reads` what the command needs to have read."""
        ...

    def apply(self, work: UnitOfWork) -> R_co:
        """Change the unit of work and return the answer, or raise a `Refused` error and leave it unchanged."""
        ...

    @property
    def rows(self) -> int:
        """Return how many tasks it may write; their sum bounds a batch."""
        ...


class OneRow:
    """A command about one task, worker or job."""

    __slots__ = ()

    rows = 1


@dataclass(slots=True)
class Each(Generic[R]):
    """Several commands that succeed or fail independently (E11)."""

    ones: Sequence[Command[R]]

    @property
    def rows(self) -> int:
        """Return how many tasks the commands may write."""
        return sum(one.rows for one in self.ones)

    def reads(self, reads: ReadSet) -> None:
        """Read what each command needs."""
        for one in self.ones:
            one.reads(reads)

    def apply(self, work: UnitOfWork) -> list[R | TreadleError]:
        """Return the answer or refusal of each command."""
        answers: list[R | TreadleError] = []
        for one in self.ones:
            try:
                answers.append(one.apply(work))
            except Refused as refusal:
                answers.append(refusal)
        return answers


def get_task(work: UnitOfWork, task_id: TaskId) -> Task:
    """Return the task as the batch has changed it so far. Raises `TaskNotFound` if there is no such task."""
    if (task := work.tasks.get(task_id)) is None:
        raise TaskNotFound(f"there is no task {task_id}")
    return task
