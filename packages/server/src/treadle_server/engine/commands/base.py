"""What a command is: it says what it needs read, and then changes the unit of work or refuses."""

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
        """Add what is to be read."""
        ...

    def apply(self, work: UnitOfWork) -> R_co:
        """Change the unit of work and return the answer, or raise a `Refused` and leave it as it was."""
        ...

    @property
    def rows(self) -> int:
        """Return how many tasks it may write; a batch is bounded by their sum."""
        ...


class OneRow:
    """A command about one task, worker or job."""

    __slots__ = ()

    rows = 1


@dataclass(slots=True)
class Each(Generic[R]):
    """Commands of which each is applied by itself: one that is refused leaves the others (E11)."""

    ones: Sequence[Command[R]]

    @property
    def rows(self) -> int:
        """Return how many tasks they may write."""
        return sum(one.rows for one in self.ones)

    def reads(self, reads: ReadSet) -> None:
        """Read what each of them needs."""
        for one in self.ones:
            one.reads(reads)

    def apply(self, work: UnitOfWork) -> list[R | TreadleError]:
        """Return the answer to each, or why it is refused."""
        answers: list[R | TreadleError] = []
        for one in self.ones:
            try:
                answers.append(one.apply(work))
            except Refused as refusal:
                answers.append(refusal)
        return answers


def get_task(work: UnitOfWork, task_id: TaskId) -> Task:
    """Return the task as the batch has it by now. Raises `TaskNotFound` when it was not found."""
    if (task := work.tasks.get(task_id)) is None:
        raise TaskNotFound(f"there is no task {task_id}")
    return task
