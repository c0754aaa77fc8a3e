"""What wants a look: starved queues, late and lost workers, queues that only fail."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from treadle_tui.core.format import age, number, since
from treadle_tui.core.queues import QueueRow
from treadle_tui.core.workers import WorkerRow

Gravity = Literal["bad", "warn"]


@dataclass(frozen=True, slots=True)
class Concern:
    """One line of the attention box."""

    gravity: Gravity
    subject: str
    text: str


def concerns(queues: Iterable[QueueRow], workers: Iterable[WorkerRow], *, now: datetime) -> list[Concern]:
    """Return what wants a look, the worst first."""
    found = [concern for queue in queues for concern in _of_queue(queue, now)]
    found += [concern for worker in workers for concern in _of_worker(worker)]
    return sorted(found, key=lambda concern: (concern.gravity != "bad", concern.subject))


def _of_queue(queue: QueueRow, now: datetime) -> Iterable[Concern]:
    if queue.state == "starved":
        waited = age(since(queue.oldest_pending_at, now))
        yield Concern("bad", queue.job.name, f"no live worker, {waited}")
    elif queue.state == "paused" and queue.pending:
        yield Concern("warn", queue.job.name, f"paused, {number(queue.pending)} wait")


def _of_worker(worker: WorkerRow) -> Iterable[Concern]:
    if worker.health == "late":
        yield Concern("warn", worker.name, f"heartbeat {age(worker.quiet)}")
    elif worker.health == "lost":
        yield Concern("bad", worker.name, f"lost, {age(worker.quiet)}")
