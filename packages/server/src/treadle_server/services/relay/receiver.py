"""Takes what other servers tell: wakes who waits here for what they did, and publishes it on this server's hub.

Read is only what somebody here wants to know: tasks that are awaited, workers that are on this server's sockets, the
last few transitions for the list of them, and everything as long as somebody is sent each transition.
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
"""Tasks whose transitions are read, though nobody awaits them, for the list of the last few: so many at once, and so
many a second. At full speed that list is one of a blink: to read 25 of each fiftieth of a second took each of four
servers a tenth of its time."""

UNCERTAIN = 5.0
"""Seconds after a gap in which another server may still tell what was committed before: what everybody read anew."""

CHUNK = 500
"""Rows that are read in one statement."""

WORKERS_AT_ONCE = 50
"""Workers that one command looks after."""

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
        """How many of the last few may be read, and since when it is so."""
        self.absences: Absences | None = None
        """Where what others tell of broken sockets is kept."""
        self.interests: list[Interest] = []
        """Each says whether somebody here awaits the task."""

    async def take(self, heard: list[Notice], *, has_gap: bool) -> None:
        """Do what the notices want, and publish what they tell. Raises `StoreUnavailable`.

        With `has_gap` something was not heard: everything that somebody here may want to know is read anew.
        """
        has_gap = has_gap or any(one.has_gap or (one.is_brief and self._engine.hub.each) for one in heard)
        told = Batch(self._engine.clock.now(), is_foreign=True, has_gap=has_gap)
        if has_gap:
            self._certain_at = self._engine.clock.monotonic() + UNCERTAIN
        told.due_at = min((one.due_at for one in heard if one.due_at is not None), default=None)
        await self._read(told, heard)
        await self._look_after(told, heard)
        self._hear_absences(heard, has_gap=has_gap)
        self._engine.link({link for one in heard for link in one.links})
        lanes = {lane for one in heard for lane in one.lanes}
        if has_gap:
            async with self._engine.store.read() as connection:
                lanes |= await waiting_lanes(Tx(connection, self._engine.store.dialect))
        self._engine.wake(lanes)
        self._engine.hub.publish(told)

    def _hear_absences(self, heard: list[Notice], *, has_gap: bool) -> None:
        if self.absences is None:
            return
        if has_gap:
            self.absences.forget_heard()
        for one in heard:
            self.absences.hear(one.server, one.away, one.back)

    async def _read(self, told: Batch, heard: list[Notice]) -> None:
        wanted = self._wanted(heard) if not told.has_gap else {}
        if not wanted and not any(one.jobs or one.heard or one.schedules for one in heard):
            return
        found: dict[TaskId, Task] = {}
        async with self._engine.store.read() as connection:
            of_ids = select_tasks().where(tasks.c.id.in_(_KEYS))
            for ids in _chunks(wanted):
                rows = await connection.execute(of_ids, {"keys": ids})
                found |= {task.id: task for task in map(to_task, rows)}
            for nums in _chunks({num for one in heard for num in one.jobs}):
                told.jobs += [Job(*row) for row in await connection.execute(_JOBS, {"keys": nums})]
            for names in _chunks({worker_id for one in heard for worker_id in one.heard}):
                rows = await connection.execute(_WORKERS, {"keys": names})
                told.workers += map(to_worker, rows)
            for named in _chunks({schedule_id for one in heard for schedule_id in one.schedules}):
                rows = await connection.execute(_SCHEDULES, {"keys": named})
                told.schedules += [Schedule(*row) for row in rows]
        told.tasks = [change for task_id in wanted if task_id in found for change in _changes(found[task_id], heard)]
        if self._engine.clock.monotonic() < self._certain_at:
            # Who has read everything anew is told nothing that the task has left behind: it may have been read already.
            told.tasks = [change for change in told.tasks if change.task is found[change.task.id]]

    def _wanted(self, heard: list[Notice]) -> dict[TaskId, None]:
        """Return the tasks that are to be read, in the order in which they were told."""
        told = {task_id: steps for one in heard for task_id, steps in one.tasks.items()}
        if self._engine.hub.each:
            return dict.fromkeys(told)
        recent = self._last_of(told)
        return {
            task_id: None for task_id in told if task_id in recent or any(wants(task_id) for wants in self.interests)
        }

    def _last_of(self, told: dict[TaskId, Transitions]) -> set[TaskId]:
        """Return the last few, no more than may be read now; where there are more, as many at once as ever."""
        at = self._engine.clock.monotonic()
        self._recent = min(float(RECENT), self._recent + (at - self._refilled_at) * REFILL)
        self._refilled_at = at
        count = min(len(told), RECENT)
        if count > self._recent:
            return set()
        self._recent -= count
        return set(islice(reversed(told), count))

    async def _look_after(self, told: Batch, heard: list[Notice]) -> None:
        """Free the room of workers here, and find out what they are to be told."""
        named: set[WorkerId] = {worker_id for one in heard for worker_id in one.workers}
        dispatcher = self._engine.dispatcher
        slots = [slot for slot in dispatcher.slots if told.has_gap or slot.worker_id in named]
        for some in _chunks(slots, WORKERS_AT_ONCE):
            recheck = Recheck({slot.worker_id: slot.held for slot in some}, self._engine.hub.stream)
            told.instructions += await self._engine.run(recheck)
        dispatcher.note_workers(told.workers, set())
        await self._hear(named)
        if told.has_gap or dispatcher.is_waited_for(named):
            self._engine.slot_changed()

    async def _hear(self, named: set[WorkerId]) -> None:
        """Read when workers that wait here were heard of last: another server may have had their heartbeat."""
        dispatcher = self._engine.dispatcher
        here = {one for one in named if dispatcher.serves_worker(one) or dispatcher.is_waited_for([one])}
        if not here:
            return
        async with self._engine.store.read() as connection:
            for ids in _chunks(here):
                rows = await connection.execute(_WORKERS, {"keys": ids})
                dispatcher.note_heartbeats([to_worker(row) for row in rows])


def _chunks(items: Collection[T], size: int = CHUNK) -> Iterable[list[T]]:
    several = list(items)
    return (several[i : i + size] for i in range(0, len(several), size))


def _changes(task: Task, heard: list[Notice]) -> list[Change]:
    """Return the transitions of a task that were told, in the order of its versions: whichever server told it first.

    Each has the status and version that the task had then.
    """
    found: list[Change] = []
    for notice in heard:
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
