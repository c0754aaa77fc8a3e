"""Observers' views: each topic as a list of encoded rows, computed once for all observers of the same thing."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.artifacts import ARTIFACTS_AT_ONCE
from treadle.wire.frames import MOST_SHOWN
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.failures import FAILING, key_text
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import OwnWorkers, Visibility
from treadle_server.engine.hub import Batch
from treadle_server.errors import TaskNotFound
from treadle_server.operations.encode import (
    artifact_data,
    dumps,
    group_data,
    happening_data,
    job_data,
    limit_data,
    listed_schedule_data,
    log_data,
    run_data,
    target_data,
    task_data,
)
from treadle_server.operations.jobs import measured
from treadle_server.operations.worker_rows import worker_data
from treadle_server.services.absences import Absences
from treadle_server.services.rates import Rates
from treadle_server.store.read import artifacts as read_artifacts
from treadle_server.store.read import counts
from treadle_server.store.read import jobs as read_jobs
from treadle_server.store.read import limits as read_limits
from treadle_server.store.read import logs as read_logs
from treadle_server.store.read import runs as read_runs
from treadle_server.store.read import schedules as read_schedules
from treadle_server.store.read import steps as read_steps
from treadle_server.store.read import targets as read_targets
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read import workers as read_workers
from treadle_server.store.read.failures import groups
from treadle_server.store.read.history import happenings
from treadle_server.store.read.positions import position

MOST_LIMITS = 1_000
"""Most limits that an observer is shown; `total` is the number of all."""

MOST_RUNS = 200
"""Most runs of a task that its observers are shown: the last ones. A task that sleeps has a run for each time."""

MOST_STEPS = 200
"""Most steps of a task that its observers are shown among its events: the last ones."""

POSITION_SECONDS = 1.0
"""Least seconds between refreshes of positions, totals, and whatever else is expensive to read."""

ROLLS = 60.0
"""Seconds after which the failures' minutes have shifted."""

TOKENS_SECONDS = 30.0
"""Seconds after which a schedule is shown as suspended, or active again, after a change of its owner's tokens."""


@dataclass(frozen=True, slots=True)
class ViewRows:
    """The rows of a view by key, in order, and the total."""

    by_key: dict[str, bytes] = field(default_factory=dict)
    total: int = 0
    total_is_capped: bool = False
    ahead: tuple[int, bool] | None = None
    """For a window: how many tasks come before it, and whether counting stopped at the cap."""
    is_partial: bool = False
    """For a window: whether tasks may be missing because not all were looked through."""


class View(ABC):
    """A topic with its parameters."""

    topic: str
    ordered = False
    """Whether changes of the rows' order are sent."""
    again_in: float | None = None
    """Seconds after which it has to be read again even if nothing changed; None for never."""

    @abstractmethod
    def concerns(self, batch: Batch) -> bool:
        """Return whether a commit may have changed it."""

    @abstractmethod
    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return its present rows."""


@dataclass(eq=False)
class RoomView(View):
    """A view of what is visible from a room, or from all rooms."""

    room: str | None
    visibility: Visibility | None = None


@dataclass(eq=False)
class SeldomView(RoomView):
    """A view that is read at most once a second."""

    _read_at: float = field(default=float("-inf"), init=False)
    _last: ViewRows = field(default_factory=ViewRows, init=False)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return its rows, read again if the last read was a second ago."""
        now = asyncio.get_running_loop().time()
        if (left := self._read_at + POSITION_SECONDS - now) > 0:
            self.again_in = left
        else:
            self.again_in = None
            self._last, self._read_at = await self.read_anew(connection), now
        return self._last

    @abstractmethod
    async def read_anew(self, connection: AsyncConnection) -> ViewRows:
        """Return its present rows."""


class CountsView(RoomView):
    """How many tasks each job has in each status."""

    topic = "counts"

    def concerns(self, batch: Batch) -> bool:
        """Return whether tasks or jobs changed, or tasks were removed."""
        return bool(batch.tasks or batch.jobs or batch.pruned)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each job."""
        found, total = await read_jobs.page(connection, room=self.room, visibility=self.visibility, limit=MOST_SHOWN)
        told = None if self.visibility is None else [job.num for job in found if self.visibility.admits(job.room)]
        by_job = await counts.by_job(connection, told)
        rows = {job.full_name: dumps({"job": job.full_name, "counts": by_job.get(job.num, {})}) for job in found}
        return ViewRows(rows, total)


@dataclass(eq=False, kw_only=True)
class JobsView(RoomView):
    """Jobs with their queues, workers and history."""

    topic = "jobs"
    rates: Rates

    def concerns(self, batch: Batch) -> bool:
        """Return whether tasks, jobs or workers changed, or tasks were removed."""
        return bool(batch.tasks or batch.jobs or batch.workers or batch.pruned)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each job, at most `MOST_SHOWN`, newest first."""
        self.rates.roll()
        found, total = await read_jobs.page(connection, room=self.room, visibility=self.visibility, limit=MOST_SHOWN)
        views = await read_jobs.view(connection, found, self.visibility)
        return ViewRows({str(view.job.id): dumps(self._row(view)) for view in views}, total)

    def _row(self, view: read_jobs.JobView) -> dict[str, Any]:
        row = job_data(view, measured=measured(self.rates, view))
        # The older name of `schema` is for HTTP clients only: here it would repeat thousands of schemas.
        del row["schema_"]
        return row


@dataclass(eq=False, kw_only=True)
class WorkersView(RoomView):
    """Workers with what they hold."""

    topic = "workers"
    lost_after: float
    absences: Absences
    own: OwnWorkers | None = None

    def concerns(self, batch: Batch) -> bool:
        """Return whether a worker changed, sent a heartbeat, or took or ended a run."""
        return bool(batch.workers or batch.jobs or any(change.task.worker_id is not None for change in batch.tasks))

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each, at most `MOST_SHOWN`. The age is 0: observers compute it from the last heartbeat."""
        found, total = await read_workers.page(
            connection, room=self.room, visibility=self.visibility, own=self.own, limit=MOST_SHOWN
        )
        rows = {
            str(v.worker.id): dumps(
                worker_data(v, v.worker.last_heartbeat, self.lost_after, self.absences.since(v.worker))
            )
            for v in await read_workers.view(connection, found, self.visibility)
        }
        return ViewRows(rows, total)


class TargetsView(RoomView):
    """Targets that are held or waited for."""

    topic = "targets"

    def concerns(self, batch: Batch) -> bool:
        """Return whether the holders or the line of any target may have changed."""
        return bool(batch.targets)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each, at most `MOST_SHOWN`, newest first."""
        found, total = await read_targets.page(
            connection, room=self.room, in_use=True, visibility=self.visibility, limit=MOST_SHOWN
        )
        rows = {str(view.num): dumps(target_data(view)) for view in found}
        return ViewRows(rows, total)


@dataclass(eq=False, kw_only=True)
class SchedulesView(RoomView):
    """Schedules with their next tick and their last task."""

    topic = "schedules"
    again_in = TOKENS_SECONDS
    tokens_at: Callable[[], datetime | None]

    def concerns(self, batch: Batch) -> bool:
        """Return whether a schedule changed, or a task that a schedule made."""
        return bool(batch.schedules) or any(task.schedule_id is not None for task, _ in batch.tasks)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each, at most `MOST_SHOWN`, newest first, without large values."""
        found, total = await read_schedules.page(
            connection,
            room=self.room,
            visibility=self.visibility,
            limit=MOST_SHOWN,
            tokens_at=self.tokens_at(),
            is_short=True,
        )
        rows = {view.schedule.id: dumps(listed_schedule_data(view)) for view in found}
        return ViewRows(rows, total)


class LimitsView(SeldomView):
    """The use of each limit and what waits for it, newest first."""

    topic = "limits"

    def concerns(self, batch: Batch) -> bool:
        """Return whether a limit changed, or a task that counts against one, or code stopped that may have counted."""
        return bool(batch.has_limits or batch.freed) or any(task.limit_key is not None for task, _ in batch.tasks)

    async def read_anew(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each, at most `MOST_LIMITS`."""
        found, total = await read_limits.page(connection, room=self.room, visibility=self.visibility, limit=MOST_LIMITS)
        return ViewRows({str(view.limit.num): dumps(limit_data(view)) for view in found}, total)


@dataclass(eq=False, kw_only=True)
class FailuresView(SeldomView):
    """What failed and where, in groups, the last seen first."""

    topic = "failures"
    ordered = True
    now: Callable[[], datetime]

    def concerns(self, batch: Batch) -> bool:
        """Return whether a run failed, a failed task changed, or tasks were removed."""
        return (
            bool(batch.pruned or batch.touched)
            or any(run.status in FAILING for run in batch.runs)
            or any(was is Status.FAILED or (task.error is not None and was is not None) for task, was in batch.tasks)
        )

    async def read_anew(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each group."""
        found, is_capped = await groups(connection, self.now(), room=self.room, visibility=self.visibility)
        if any(any(group.minutes) for group in found):
            self.again_in = ROLLS
        return ViewRows({key_text(group.key): dumps(group_data(group)) for group in found}, len(found), is_capped)


class TaskView(View):
    """One task with its runs, logs, events and artifacts."""

    topic = "task"

    def __init__(
        self, task_id: TaskId, now: Callable[[], datetime], is_seen: Callable[[Task], bool] | None = None
    ) -> None:
        self._now = now
        self._id = task_id
        self._is_seen = is_seen
        """Whether the user can see it; None for a user who can read all rooms."""
        self._position: int | None = None
        self._placed_at = float("-inf")
        self._pending_in: int | None = None
        self._targets: set[int] = set()
        self._lines: set[int] = set()

    def concerns(self, batch: Batch) -> bool:
        """Return whether the task changed or, while it is pending, others in its queue, or what it waits for."""
        if self._id in batch.pruned or not self._targets.isdisjoint(batch.targets):
            return True
        if not self._lines.isdisjoint(batch.shifted):
            return True
        if any(change.task.id == self._id for change in batch.tasks) or any(t.id == self._id for t in batch.touched):
            return True
        return self._pending_in is not None and any(c.task.job_num == self._pending_in for c in batch.tasks)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return the task's row; no row when the task does not exist or the user can't see it."""
        try:
            task = await read_tasks.get(connection, self._id)
        except TaskNotFound:
            return ViewRows()
        if self._is_seen is not None and not self._is_seen(task):
            return ViewRows()
        self._pending_in = task.job_num if task.status is Status.PENDING else None
        await self._place(connection, task)
        blockers = await read_targets.blocked_by(connection, [task])
        self._targets = awaited_targets([task])
        self._lines = limited_lanes([task])
        runs = await read_runs.of_task(connection, task, most=MOST_RUNS, most_text=read_runs.MOST_TEXT)
        steps = await read_steps.outline(connection, task.seq, most=MOST_STEPS) if task.steps else []
        stored, _ = await read_artifacts.page(
            connection, task.seq, run_id=None, now=self._now(), limit=ARTIFACTS_AT_ONCE, offset=0
        )
        data: dict[str, Any] = {
            "id": task.id,
            "task": orjson.Fragment(dumps(task_data(task, self._position, blockers.get(task.seq)))),
            "runs": [run_data(run) for run in runs],
            "events": [happening_data(one) for one in happenings(task, runs, steps)],
            "logs": [log_data(line) for line in await read_logs.of_task(connection, task.seq)],
            "artifacts": [artifact_data(item) for item in stored],
        }
        return ViewRows({task.id: dumps(data)}, 1)

    async def _place(self, connection: AsyncConnection, task: Task) -> None:
        """Read its queue position while it is pending, at most once a second."""
        now = asyncio.get_running_loop().time()
        self.again_in = None
        if task.status is not Status.PENDING:
            self._position = None
        elif (left := self._placed_at + POSITION_SECONDS - now) > 0:
            self.again_in = left
        else:
            self._position, self._placed_at = await position(connection, task), now


def limited_lanes(found: Iterable[Task]) -> set[int]:
    """Return the lanes of the pending tasks among `found` that count against limits."""
    return {task.lane for task in found if task.limit_key is not None and task.status is Status.PENDING}


def awaited_targets(found: Iterable[Task]) -> set[int]:
    """Return the numbers of the targets that pending tasks among `found` wait for."""
    return {task.target_num for task in found if task.target_num is not None and task.status is Status.PENDING}
