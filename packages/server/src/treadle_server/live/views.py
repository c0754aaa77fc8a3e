"""What observers look at: each topic as a list of encoded rows, computed once for all who look at the same."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.hub import Batch
from treadle_server.errors import TaskNotFound
from treadle_server.operations.encode import (
    artifact_data,
    dumps,
    happening_data,
    job_data,
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
from treadle_server.store.read import logs as read_logs
from treadle_server.store.read import runs as read_runs
from treadle_server.store.read import schedules as read_schedules
from treadle_server.store.read import steps as read_steps
from treadle_server.store.read import targets as read_targets
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read import workers as read_workers
from treadle_server.store.read.history import happenings
from treadle_server.store.read.positions import positions

MOST_TARGETS = 10_000
"""Targets that an observer is shown; `total` tells how many there are."""

MOST_ARTIFACTS = 100
"""A task's artifacts that its observers are shown: those of its last runs."""

MOST_STEPS = 200
"""A task's steps that its observers are shown among its events: the last ones."""

MOST_SCHEDULES = 10_000
"""Schedules that an observer is shown; `total` tells how many there are."""

POSITION_SECONDS = 1.0
"""How often positions and totals are refreshed at most."""


@dataclass(frozen=True, slots=True)
class ViewRows:
    """The rows of a view by key, in order, and how many there are beyond it."""

    by_key: dict[str, bytes] = field(default_factory=dict)
    total: int = 0
    total_is_capped: bool = False
    ahead: tuple[int, bool] | None = None
    """Of a window: how many tasks stand before it, and whether counting stopped at the cap."""
    is_partial: bool = False
    """Of a window: whether tasks may be missing that were not looked through."""


class View(Protocol):
    """A topic with its parameters."""

    topic: str
    ordered: bool
    """Whether a change of order is told."""
    again_in: float | None
    """After how many seconds it wants to be read again though nothing changed; None: not."""

    def concerns(self, batch: Batch) -> bool:
        """Return whether a commit may have changed it."""
        ...

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return its rows at this moment."""
        ...


class _RoomView:
    """What is seen from a room, or from all that may be seen; read again when something changed."""

    ordered = False
    again_in: float | None = None

    def __init__(self, room: str | None, visibility: Visibility | None = None) -> None:
        self._room = room
        self._visibility = visibility


class CountsView(_RoomView):
    """How many tasks each job has in each status."""

    topic = "counts"

    def concerns(self, batch: Batch) -> bool:
        """Return whether tasks or jobs changed, or tasks were removed."""
        return bool(batch.tasks or batch.jobs or batch.pruned)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each job."""
        found, total = await read_jobs.page(connection, room=self._room, visibility=self._visibility, limit=10_000)
        told = None if self._visibility is None else [job.num for job in found if self._visibility.admits(job.room)]
        by_job = await counts.by_job(connection, told)
        rows = {job.full_name: dumps({"job": job.full_name, "counts": by_job.get(job.num, {})}) for job in found}
        return ViewRows(rows, total)


class JobsView:
    """Jobs with their queues, workers and history."""

    topic = "jobs"
    ordered = False
    again_in: float | None = None

    def __init__(self, room: str | None, rates: Rates, visibility: Visibility | None = None) -> None:
        self._room = room
        self._rates = rates
        self._visibility = visibility

    def concerns(self, batch: Batch) -> bool:
        """Return whether tasks, jobs or workers changed, or tasks were removed."""
        return bool(batch.tasks or batch.jobs or batch.workers or batch.pruned)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each job."""
        self._rates.roll()
        found = await read_jobs.every_view(connection, room=self._room, visibility=self._visibility)
        rows = {str(v.job.id): dumps(job_data(v, measured=measured(self._rates, v))) for v in found}
        return ViewRows(rows, len(rows))


class WorkersView:
    """Workers with what they hold."""

    topic = "workers"
    ordered = False
    again_in: float | None = None

    def __init__(
        self,
        room: str | None,
        lost_after: float,
        absences: Absences,
        visibility: Visibility | None = None,
        owner: str | None = None,
    ) -> None:
        self._room = room
        self._lost_after = lost_after
        self._absences = absences
        self._visibility = visibility
        self._owner = owner

    def concerns(self, batch: Batch) -> bool:
        """Return whether a worker changed, beat, or took or ended a run."""
        return bool(batch.workers or batch.jobs or any(change.task.worker_id is not None for change in batch.tasks))

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each worker. Its age is 0: observers reckon it from the last heartbeat."""
        found = await read_workers.every_view(
            connection, room=self._room, visibility=self._visibility, owner=self._owner
        )
        rows = {
            str(v.worker.id): dumps(
                worker_data(v, v.worker.last_heartbeat, self._lost_after, self._absences.since(v.worker))
            )
            for v in found
        }
        return ViewRows(rows, len(rows))


class TargetsView(_RoomView):
    """Targets that are held or waited for."""

    topic = "targets"

    def concerns(self, batch: Batch) -> bool:
        """Return whether the holders or the line of any target may have changed."""
        return bool(batch.targets)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each, at most `MOST_TARGETS`, newest first."""
        found, total = await read_targets.in_use(
            connection, room=self._room, visibility=self._visibility, limit=MOST_TARGETS
        )
        rows = {str(view.num): dumps(target_data(view)) for view in found}
        return ViewRows(rows, total)


class SchedulesView:
    """Schedules with their next tick and their last task."""

    topic = "schedules"
    ordered = False
    again_in: float | None = None

    def __init__(
        self, room: str | None, tokens_at: Callable[[], datetime | None], visibility: Visibility | None = None
    ) -> None:
        self._room = room
        self._tokens_at = tokens_at
        self._visibility = visibility

    def concerns(self, batch: Batch) -> bool:
        """Return whether a schedule changed, or a task that one has made."""
        return bool(batch.schedules) or any(task.schedule_id is not None for task, _ in batch.tasks)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each, at most `MOST_SCHEDULES`, newest first, without large values."""
        found, total = await read_schedules.page(
            connection,
            room=self._room,
            visibility=self._visibility,
            limit=MOST_SCHEDULES,
            tokens_at=self._tokens_at(),
            is_short=True,
        )
        rows = {view.schedule.id: dumps(listed_schedule_data(view)) for view in found}
        return ViewRows(rows, total)


class RecentPositions:
    """Queue positions that are refreshed at most once a second."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._read_at = float("-inf")

    async def of(self, connection: AsyncConnection, tasks: list[Task]) -> tuple[dict[int, int], float | None]:
        """Return positions by seq, and after how many seconds they want to be refreshed."""
        if not any(task.status is Status.PENDING for task in tasks):
            return {}, None
        now = asyncio.get_running_loop().time()
        if (left := self._read_at + POSITION_SECONDS - now) > 0:
            pending = {task.seq for task in tasks if task.status is Status.PENDING}
            return {seq: position for seq, position in self._known.items() if seq in pending}, left
        self._known = await positions(connection, tasks)
        self._read_at = now
        return self._known, None


class TaskView:
    """One task with its runs, logs, events and artifacts."""

    topic = "task"
    ordered = False

    def __init__(
        self, task_id: TaskId, now: Callable[[], datetime], is_seen: Callable[[Task], bool] | None = None
    ) -> None:
        self.again_in: float | None = None
        self._now = now
        self._id = task_id
        self._is_seen = is_seen
        """Whether the asker sees it; None: who reads all rooms does."""
        self._positions = RecentPositions()
        self._pending_in: int | None = None
        self._targets: set[int] = set()
        self._lines: set[int] = set()

    def concerns(self, batch: Batch) -> bool:
        """Return whether it changed itself, or while it is pending others of its queue, or what it waits for."""
        if self._id in batch.pruned or not self._targets.isdisjoint(batch.targets):
            return True
        if not self._lines.isdisjoint(batch.shifted):
            return True
        if any(change.task.id == self._id for change in batch.tasks) or any(t.id == self._id for t in batch.touched):
            return True
        return self._pending_in is not None and any(c.task.job_num == self._pending_in for c in batch.tasks)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return the one row, or none when there is no such task to be seen."""
        try:
            task = await read_tasks.get(connection, self._id)
        except TaskNotFound:
            return ViewRows()
        if self._is_seen is not None and not self._is_seen(task):
            return ViewRows()
        self._pending_in = task.job_num if task.status is Status.PENDING else None
        found, self.again_in = await self._positions.of(connection, [task])
        blockers = await read_targets.blocked_by(connection, [task])
        self._targets = awaited_targets([task])
        self._lines = limited_lanes([task])
        runs = await read_runs.of_task(connection, task, most_text=read_runs.MOST_TEXT)
        steps = await read_steps.outline(connection, task.seq) if task.steps else []
        stored, _ = await read_artifacts.page(
            connection, task.seq, run_id=None, now=self._now(), limit=MOST_ARTIFACTS, offset=0
        )
        data: dict[str, Any] = {
            "id": task.id,
            "task": orjson.Fragment(dumps(task_data(task, found.get(task.seq), blockers.get(task.seq)))),
            "runs": [run_data(run) for run in runs],
            "events": [happening_data(one) for one in happenings(task, runs, steps[-MOST_STEPS:])],
            "logs": [log_data(line) for line in await read_logs.of_task(connection, task.seq)],
            "artifacts": [artifact_data(item) for item in stored],
        }
        return ViewRows({task.id: dumps(data)}, 1)


def limited_lanes(found: Iterable[Task]) -> set[int]:
    """Return the lanes in which pending tasks among `found` stand that count against limits."""
    return {task.lane for task in found if task.limit_key is not None and task.status is Status.PENDING}


def awaited_targets(found: Iterable[Task]) -> set[int]:
    """Return the numbers of the targets that pending tasks among `found` wait for."""
    return {task.target_num for task in found if task.target_num is not None and task.status is Status.PENDING}
