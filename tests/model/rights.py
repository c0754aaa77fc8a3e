"""The model's rights: whose worker, whose task, whose run; and the credential that each claim gives."""

from datetime import datetime, timedelta
from typing import Literal

from tests.model.crowds import Crowds
from tests.model.things import FORBIDDEN, NO_TASK, NO_WORKER, UNAUTHORIZED, Task, User, Worker

SKEW = timedelta(seconds=5)
"""How long a credential outlives its lease."""

Gate = Literal["open", "run", "late"]


class Rights(Crowds):
    """Who may what."""

    def __init__(self, worker_timeout: float = 60.0) -> None:
        super().__init__(worker_timeout)
        self.credentials: dict[tuple[str, int], datetime] = {}
        """When the last credential of each run ends, to whoever it was given."""

    def own_worker(self, user: User, worker_id: str) -> Worker:
        """Return the worker as which the user acts."""
        if (worker := self.workers.get(worker_id)) is None:
            raise NO_WORKER
        if not self.is_own(user, worker):
            raise FORBIDDEN
        return worker

    @staticmethod
    def is_own(user: User, worker: Worker) -> bool:
        """Whether the user may act as the worker."""
        return user.superuser or (user.run is None and user.name == worker.owner)

    def speaks_for(self, user: User, worker_id: str | None, task: Task, run_id: int | None) -> bool:
        """Whether the user may report of the run, which is the worker's."""
        worker = self.workers.get(worker_id or "")
        return user.superuser or user.run == (task.id, run_id) or (worker is not None and self.is_own(user, worker))

    @staticmethod
    def sees(user: User, task_id: str) -> bool:
        """Whether the user reads the task: a credential reads its own alone."""
        return user.run is None or user.run[0] == task_id

    def check_control(self, user: User, task: Task) -> None:
        """Refuse whoever may not steer the task."""
        if user.superuser or (user.run is None and user.name == task.submitter):
            return
        raise FORBIDDEN if self.sees(user, task.id) else NO_TASK

    # Credentials (G10)

    def mint(self, task: Task) -> None:
        """Give a credential for the task's open run; it counts in whole seconds."""
        assert task.run_id is not None
        assert task.taken_until is not None
        ends = task.taken_until + SKEW
        self.credentials[task.id, task.run_id] = ends.replace(microsecond=0) + timedelta(seconds=ends.microsecond > 0)

    def admit(self, user: User, now: datetime, gate: Gate, task_id: str | None) -> None:
        """Let a credential in, or not.

        With `gate` open it is dead as soon as its run is over; run: what is asked looks at the run itself; late: that
        is asked after it is told that the task, which the route names, is another's.
        """
        if user.run is None:
            return
        if self.credentials[user.run] <= now:
            raise UNAUTHORIZED
        if gate == "open" and not self.is_live(user.run):
            raise UNAUTHORIZED
        if task_id is not None and not self.sees(user, task_id):
            raise NO_TASK
        if gate == "late" and not self.is_live(user.run):
            raise UNAUTHORIZED

    def is_live(self, run: tuple[str, int]) -> bool:
        """Whether the run is open."""
        task = self.tasks[run[0]]
        return task.is_leased and task.run_id == run[1]
