"""The history of a task, as far as its row, runs and steps still have the times."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from treadle.wire.status import LEASED, OPEN, TERMINAL, Status
from treadle_server.domain.steps import Step
from treadle_server.domain.tasks import Task
from treadle_server.store.read.runs import RunView


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to a task, or that is due to happen."""

    at: datetime
    kind: str
    run_id: int | None = None
    status: str | None = None
    reason: str | None = None
    error: str | None = None
    worker_id: str | None = None
    worker_name: str | None = None
    step: str | None = None


def happenings(task: Task, runs: Sequence[RunView], steps: Sequence[Step] = ()) -> list[Happening]:
    """Return the known events in order of time; those of one moment in their natural order.

    Every run is known. Of what happened between runs only the last event is: earlier pauses, resumes, reruns and edits
    leave no time behind.
    """
    found = [Happening(task.created_at, "created")]
    for run in runs:
        found += _of_run(run)
    found += [Happening(one.received_at or one.at, "step", one.run_id, one.kind, step=one.name) for one in steps]
    found += _of_task(task, max((one.at for one in found), default=task.created_at))
    return sorted(found, key=lambda one: one.at)


def _of_run(run: RunView) -> Iterator[Happening]:
    if run.worker_id is None and run.ended_at is not None:
        # No worker ran it: it was resolved by a person.
        yield Happening(run.ended_at, "resolved", run.run_id, run.status, run.reason, run.error)
        return

    def by_worker(at: datetime, kind: str) -> Happening:
        return Happening(at, kind, run.run_id, worker_id=run.worker_id, worker_name=run.worker_name)

    yield by_worker(run.claimed_at, "claimed")
    if run.started_at is not None:
        yield by_worker(run.started_at, "started")
    if run.ended_at is not None and run.status not in LEASED:
        ended = by_worker(run.ended_at, "ended")
        yield replace(ended, status=run.status, reason=run.reason, error=run.error)


def _of_task(task: Task, last: datetime) -> Iterator[Happening]:
    """Yield the task's present state, and what is due; `last` is the time of the last event known before."""
    if task.status in TERMINAL and task.completed_at is not None:
        yield Happening(task.completed_at, str(task.status), reason=task.reason, error=task.error)
    elif task.status is Status.PAUSED:
        yield Happening(task.updated_at, "paused", reason=task.reason)
    elif task.is_leased and task.cancel_requested:
        yield Happening(task.updated_at, "pausing", run_id=task.run_id)
    elif not task.is_leased and task.updated_at > last:
        yield Happening(task.updated_at, "changed", status=str(task.status))
    if task.status is Status.SCHEDULED:
        yield Happening(task.due_at, "due" if task.next_retry_at is None else "retry")
    elif task.due_at > task.created_at and not task.has_run:
        yield Happening(task.due_at, "due")
    if task.deadline is not None and task.status in OPEN:
        yield Happening(task.deadline, "deadline")
