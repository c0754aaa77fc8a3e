"""What happens around the requests: time, services, several at once, and what fails."""

from dataclasses import dataclass
from typing import Any

from tests.model.operations.base import (
    Moment,
    Operation,
)


@dataclass(frozen=True)
class Pass(Operation):
    """Time passes."""

    seconds: float


@dataclass(frozen=True)
class Service(Operation):
    """A turn of one of the services: `sweep`, `promote`, `tick`, which is the scheduler's, or `follow`.

    The last one turns until all was told to those that wait for tasks.
    """

    name: str

    def answer(self, at: Moment) -> Any:
        self.begin(at)

    def begin(self, at: Moment, commits: int | None = None) -> None:
        """Do the turn as far as so many commits go."""
        if self.name == "sweep":
            at.model.sweep(at.now, at.passed, at.server, commits)
        elif self.name == "follow":
            at.model.follow(at.now, commits)
        elif commits != 0:
            (at.model.promote if self.name == "promote" else at.model.tick)(at.now)
        at.model.delete_orphans()


@dataclass(frozen=True)
class Together(Operation):
    """Several requests at once, which the server writes in one batch or in several, in whatever order it likes."""

    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Faulty(Operation):
    """The operation's commit fails: nothing of it is there; or, when it is only not answered, all of it."""

    operation: Operation
    done: bool


@dataclass(frozen=True)
class Crash(Operation):
    """The server is killed in the middle of the operation or the turn, and another is started on the database.

    It is so right before the commit number `after` counted from 0 or, when that is `done`, right after it; where there
    are not so many it is not killed.
    """

    operation: Operation
    done: bool
    after: int = 0


@dataclass(frozen=True)
class Restart(Operation):
    """The server ends, and another is started on the database."""


@dataclass(frozen=True)
class Step(Operation):
    """Somebody sets the store's clock, while no time passes."""

    seconds: float


@dataclass(frozen=True)
class Other(Operation):
    """The operation, done at the second server where there are two."""

    operation: Operation
