"""The last few hundred transitions in brief, kept even without observers, for clients that open a list of them.

Only the few fields of a line on a screen are kept, never a payload. A commit leaves at most the last `MOST_OF_A_COMMIT`
of its tasks, so that it costs little on a busy server, which makes a few hundred in the blink of an eye; gaps in the
numbers show what is missing. While nobody wants every transition, a start that is reported with its end is not reported
separately (see `Hub.each`). A task's life costs 1.2 of the engine's 90 microseconds with a hundred tasks in a commit,
and 2 % with ten (`python -m tests.bench.rates`).
"""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from treadle.wire.frames import MOST_RECENT, EventType
from treadle.wire.status import Status
from treadle_server.domain.jobs import Job
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.tasks import NEVER_RUN, Task
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.hub import Batch
from treadle_server.services.worker_states import WorkerStates

MOST_OF_A_COMMIT = 25

ERROR_LENGTH = 500
"""Most characters of an error in a brief event."""

_CLAIMED, _RUNNING, _COMPLETED = Status.CLAIMED, Status.RUNNING, Status.COMPLETED


class Brief(NamedTuple):
    """A transition in brief."""

    seq: int
    at: datetime
    kind: EventType
    task_id: str | None
    job: str | None
    room: str | None
    data: dict[str, Any] | tuple[Any, ...]
    """The rest of the event. For tasks, which are many, only the values from which it is built when it is shown."""

    def shown(self) -> dict[str, Any]:
        """Return it as an event with fewer fields."""
        data = self.data if isinstance(self.data, dict) else _shown_task(self, *self.data)
        return {"seq": self.seq, "type": self.kind, "at": self.at, **data}


class Recent:
    """The last transitions, and the last reported state of each worker."""

    def __init__(self, states: WorkerStates | None = None) -> None:
        self._kept: deque[Brief] = deque(maxlen=MOST_RECENT)
        self._states = states or WorkerStates()

    def from_now(self) -> "Recent":
        """Return one without transitions so far, to which the workers' states are no news."""
        return Recent(self._states.copy())

    def on_commit(self, batch: Batch) -> None:
        """Keep the last transitions of a commit."""
        self._kept.extend(self.of(batch, most=MOST_OF_A_COMMIT))

    def of(self, batch: Batch, *, most: int | None = None) -> Iterator[Brief]:
        """Yield the last `most` transitions of a commit's tasks in brief (None: all), and all other transitions.

        The others are of jobs, workers and schedules. A worker's heartbeat is not a transition, nor is a change that a
        later one has overtaken (`Batch.late`).
        """
        at, seq = batch.at, batch.seq - batch.size
        skipped = 0 if most is None else max(0, len(batch.tasks) - most)
        for number, (task, was) in enumerate(batch.tasks[skipped:] if skipped else batch.tasks, seq + skipped + 1):
            if number - seq - 1 in batch.late:
                continue
            yield Brief(number, at, "task.updated", task.id, task.job_name, task.room, _of_task(task, was))
        seq += len(batch.tasks)
        for number, job in enumerate(batch.jobs, seq + 1):
            yield Brief(number, at, "job.updated", None, job.full_name, job.room, _of_job(job))
        seq += len(batch.jobs)
        for number, worker in enumerate(batch.workers, seq + 1):
            if self._states.is_news(worker):
                told = {"id": worker.id, "name": worker.name, "state": worker.state}
                yield Brief(number, at, "worker.updated", None, None, None, {"worker": told})
        seq += len(batch.workers)
        for number, schedule in enumerate(batch.schedules, seq + 1):
            yield Brief(number, at, "schedule.updated", None, None, schedule.room, _of_schedule(schedule))

    def last(
        self,
        count: int,
        *,
        room: str | None = None,
        job: str | None = None,
        task_id: str | None = None,
        visibility: Visibility | None = None,
    ) -> list[Brief]:
        """Return the last transitions of the room, job or task, up to `count`, oldest first.

        `visibility` narrows them to those that a user with it can see.
        """
        wanted = [
            one
            for one in self._kept
            if (room is None or one.room == room)
            and (job is None or one.job == job)
            and (task_id is None or one.task_id == task_id)
            and tells(visibility, one.room, is_job=one.kind == "job.updated")
        ]
        return wanted[max(0, len(wanted) - count) :]


def tells(visibility: Visibility | None, room: str | None, *, is_job: bool) -> bool:
    """Return whether a transition in the room is visible within `visibility`.

    A transition without a room, of a worker, is visible only to users who can read all rooms: it may serve any of them.
    """
    if visibility is None or room is None:
        return visibility is None
    return visibility.admits_job(room) if is_job else visibility.admits(room)


def _of_task(task: Task, was: Status | None) -> tuple[Any, ...]:
    status, error = task.status, task.error
    if status is _COMPLETED and was is _CLAIMED:
        # One object reports both changes of a task that started and completed in one commit.
        status = _RUNNING
    if error is not None:
        error = error[:ERROR_LENGTH]
    return (was, task.run_id, error, task.tags, status, task.worker_id, task.reason, task.target)


def _shown_task(
    brief: Brief, was: Status | None, run_id: int, error: str | None, tags: str | None, *others: Any
) -> dict[str, Any]:
    task = {
        "id": brief.task_id,
        "job_name": brief.job,
        "room_id": brief.room,
        "run_id": None if run_id == NEVER_RUN else run_id,
        "error": error,
        "tags": None if tags is None else orjson.Fragment(tags),
        **dict(zip(("status", "worker_id", "reason", "target"), others, strict=True)),
    }
    return {"was": was, "task": task}


def _of_job(job: Job) -> dict[str, Any]:
    told = {"id": job.id, "full_name": job.full_name, "room_id": job.room, "paused": job.paused}
    return {"job": told, "deleted": job.deleted_at is not None}


def _of_schedule(schedule: Schedule) -> dict[str, Any]:
    told = {name: getattr(schedule, name) for name in ("id", "name", "paused", "last_task_id")}
    return {"schedule": {**told, "room_id": schedule.room}, "deleted": schedule.deleted_at is not None}
