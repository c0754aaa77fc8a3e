"""Handles other servers' notices: wakes whatever waits here for their changes, and publishes them on this server's hub.

Only what is needed here is read: awaited tasks, workers on this server's sockets, the last few transitions for the list
of recent ones, and everything while somebody here receives every transition.
"""

import copy
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import BindParameter, bindparam, select

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import LEASED, TERMINAL, Status
from treadle_server.domain.jobs import JOB_FIELDS, WORKER_FIELDS, Job
from treadle_server.domain.schedules import SCHEDULE_FIELDS, Schedule
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Recheck
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch, Change
from treadle_server.services.absences import Absences
from treadle_server.services.relay.codec import Notice, Transitions
from treadle_server.store.base import Tx
from treadle_server.store.tables import jobs, schedules, tasks, workers
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.heads import waiting_lanes
from treadle_server.store.transaction.load import to_task, to_worker

RECENT, REFILL = 25, 100.0
"""Tasks that are read only for the list of recent transitions: so many at once, and so many a second. At full speed
that list covers the blink of an eye: reading 25 tasks fifty times a second took each of four servers a tenth of its
time."""

UNCERTAIN = 5.0
"""Seconds after a gap in which other servers may still report changes from before it, which have been read again
already."""

CHUNK = 500
"""Rows that are read with one statement."""

WORKERS_AT_ONCE = 50
"""Workers that one command rechecks."""

T = TypeVar("T")

Interest = Callable[[TaskId], bool]


_KEYS: BindParameter[Collection[Any]] = bindparam("keys", expanding=True)
_JOBS = select(*(jobs.c[name] for name in JOB_FIELDS)).where(jobs.c.num.in_(_KEYS))
_WORKERS = select(*(workers.c[name] for name in WORKER_FIELDS)).where(workers.c.id.in_(_KEYS))
_SCHEDULES = select(*(schedules.c[name] for name in SCHEDULE_FIELDS)).where(schedules.c.id.in_(_KEYS))


class NoticeReceiver:
    """Turns notices into a batch of this server's hub."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._certain_at = 0.0
        self._recent, self._refilled_at = float(RECENT), 0.0
        """How many tasks may be read for the recent list, and when that was computed."""
        self.absences: Absences | None = None
        """Receives the other servers' reports of broken sockets."""
        self.interests: list[Interest] = []
        """Each tells whether a task is awaited here."""

    async def take(self, notices: list[Notice], *, has_gap: bool) -> None:
        """Handle notices, and publish their changes. Raises `StoreUnavailable`.

        With `has_gap` a notice was lost: everything that may be needed here is read again.
        """
        has_gap = has_gap or any(one.has_gap or (one.is_brief and self._engine.hub.each) for one in notices)
        batch = Batch(self._engine.clock.now(), is_foreign=True, has_gap=has_gap)
        if has_gap:
            self._certain_at = self._engine.clock.monotonic() + UNCERTAIN
        batch.due_at = min((one.due_at for one in notices if one.due_at is not None), default=None)
        await self._read(batch, notices)
        await self._recheck_workers(batch, notices)
        self._take_absences(notices, has_gap=has_gap)
        self._engine.link({link for one in notices for link in one.links})
        lanes = {lane for one in notices for lane in one.lanes}
        if has_gap:
            async with self._engine.store.read_loosely() as connection:
                lanes |= await waiting_lanes(Tx(connection, self._engine.store.dialect))
        self._engine.wake(lanes)
        self._engine.hub.publish(batch)

    def _take_absences(self, notices: list[Notice], *, has_gap: bool) -> None:
        if self.absences is None:
            return
        if has_gap:
            self.absences.forget_heard()
        for one in notices:
            self.absences.hear(one.server, one.away, one.back)

    async def _read(self, batch: Batch, notices: list[Notice]) -> None:
        wanted = self._wanted(notices) if not batch.has_gap else {}
        if not wanted and not any(one.jobs or one.updated_workers or one.schedules for one in notices):
            return
        found: dict[TaskId, Task] = {}
        async with self._engine.store.read_loosely() as connection:
            of_ids = select_tasks().where(tasks.c.id.in_(_KEYS))
            for ids in _chunks(wanted):
                rows = await connection.execute(of_ids, {"keys": ids})
                found |= {task.id: task for task in map(to_task, rows)}
            for nums in _chunks({num for one in notices for num in one.jobs}):
                batch.jobs += [Job(*row) for row in await connection.execute(_JOBS, {"keys": nums})]
            for names in _chunks({worker_id for one in notices for worker_id in one.updated_workers}):
                rows = await connection.execute(_WORKERS, {"keys": names})
                batch.workers += map(to_worker, rows)
            for named in _chunks({schedule_id for one in notices for schedule_id in one.schedules}):
                rows = await connection.execute(_SCHEDULES, {"keys": named})
                batch.schedules += [Schedule(*row) for row in rows]
        batch.tasks = [change for task_id in wanted if task_id in found for change in _changes(found[task_id], notices)]
        if self._engine.clock.monotonic() < self._certain_at:
            # After a gap only present states are published: earlier ones may be older than what has been read again.
            batch.tasks = [change for change in batch.tasks if change.task is found[change.task.id]]

    def _wanted(self, notices: list[Notice]) -> dict[TaskId, None]:
        """Return the tasks to read, in the order of the notices."""
        reported = {task_id: steps for one in notices for task_id, steps in one.tasks.items()}
        if self._engine.hub.each:
            return dict.fromkeys(reported)
        recent = self._last_of(reported)
        return {
            task_id: None
            for task_id in reported
            if task_id in recent or any(wants(task_id) for wants in self.interests)
        }

    def _last_of(self, reported: dict[TaskId, Transitions]) -> set[TaskId]:
        """Return the last few tasks for the recent list: up to `RECENT` at once, or none if too few may be read now."""
        at = self._engine.clock.monotonic()
        self._recent = min(float(RECENT), self._recent + (at - self._refilled_at) * REFILL)
        self._refilled_at = at
        count = min(len(reported), RECENT)
        if count > self._recent:
            return set()
        self._recent -= count
        return set(islice(reversed(reported), count))

    async def _recheck_workers(self, batch: Batch, notices: list[Notice]) -> None:
        """Free the room of workers here, and find out their instructions."""
        named: set[WorkerId] = {worker_id for one in notices for worker_id in one.workers}
        dispatcher = self._engine.dispatcher
        slots = [slot for slot in dispatcher.slots if batch.has_gap or slot.worker_id in named]
        for some in _chunks(slots, WORKERS_AT_ONCE):
            recheck = Recheck({slot.worker_id: slot.held for slot in some}, self._engine.hub.stream)
            batch.instructions += await self._engine.run(recheck)
        dispatcher.note_workers(batch.workers, set())
        await self._read_heartbeats(named)
        if batch.has_gap or dispatcher.is_waited_for(named):
            self._engine.slot_changed()

    async def _read_heartbeats(self, named: set[WorkerId]) -> None:
        """Read the last heartbeats of workers that wait here, which another server may have received."""
        dispatcher = self._engine.dispatcher
        here = {one for one in named if dispatcher.serves_worker(one) or dispatcher.is_waited_for([one])}
        if not here:
            return
        async with self._engine.store.read_loosely() as connection:
            for ids in _chunks(here):
                rows = await connection.execute(_WORKERS, {"keys": ids})
                dispatcher.note_heartbeats([to_worker(row) for row in rows])


def _chunks(items: Collection[T], size: int = CHUNK) -> Iterable[list[T]]:
    several = list(items)
    return (several[i : i + size] for i in range(0, len(several), size))


def _changes(task: Task, notices: list[Notice]) -> list[Change]:
    """Return the reported transitions of a task, in the order of its versions, whichever server reported first.

    Each has the task with its status and version of that time.
    """
    found: list[Change] = []
    for notice in notices:
        steps: Transitions | None = notice.tasks.get(task.id)
        was = None if steps is None else steps.was
        for status, version in () if steps is None else steps.taken:
            found.append(Change(_as_of(task, status, version), was))
            was = status
    return sorted(found, key=lambda change: change.task.version)


def _as_of(task: Task, status: Status, version: int) -> Task:
    if task.version == version and task.status is status:
        return task
    then = copy.copy(task)
    then.status, then.version = status, version
    if status not in TERMINAL:
        then.completed_at = None
    if status not in LEASED:
        then.taken_until = None
    return then
