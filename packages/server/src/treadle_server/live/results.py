"""Pushes results of tasks to the sessions that await them."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import TaskId
from treadle.wire.status import TERMINAL
from treadle_server.access.checks import sees
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch
from treadle_server.errors import StoreUnavailable, TooManyRequests
from treadle_server.live.connection import Connection
from treadle_server.operations.encode import task_data
from treadle_server.services.base import Service
from treadle_server.store.bound_lists import is_among
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read.shown import SIZE, fitting, listed, size_of, whole
from treadle_server.store.read.tasks import MOST_OF_PAGE
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import status_in, tasks
from treadle_server.store.transaction.load import to_task

MOST_AWAITED = 100_000
"""Most tasks that one session may await; more are rejected."""

MOST_YOUNG = 100_000
"""Most tasks that are remembered as not ended; when there are more, all are forgotten, and looked up when awaited."""

CHUNK = 500
LATE_CHUNK = 32
"""How many of the tasks whose sessions had no room are looked up at once."""

POLL_SECONDS = 5.0
"""Seconds between lookups of each awaited task, which may have ended on another server of the same database."""

PARTS = 5
"""Over how many turns these lookups are spread: 10,000 at once took 80 ms, and held up other work."""


_ENDED = listed(SIZE).where(is_among(tasks.c.id, "ids"), status_in(*TERMINAL))
"""The statement that reads the ended ones of the tasks `ids`.

Its text is the same for any number of them: with a parameter for each, looking up 10,000 took 0.1 s.
"""


class _Young(NamedTuple):
    """The fields of a task that determine who can see it."""

    id: TaskId
    room: str
    job_name: str
    submitter: str
    run_id: int


class Results(Service):
    """Awaited tasks, and the sessions that await them; as a service it polls the store for ended ones."""

    name = "results"
    everywhere = True

    def __init__(self, store: SqlStore) -> None:
        super().__init__()
        self._store = store
        self._wanted: dict[TaskId, set[Connection]] = defaultdict(set)
        self._young: dict[TaskId, tuple[TaskId, str, str, str, int]] = {}
        """SQLite: tasks that were created by this process and have not ended, as the fields of `_Young`.

        Awaiting one of them needs no lookup, which takes a thread, and half of the time from a task's start to its
        result (3.1 ms with it, 1.6 without, in one run).
        """
        self._look: set[TaskId] = set()
        self._late: set[TaskId] = set()
        """Ended tasks whose sessions first have to read what was pushed to them before."""
        self._polled_at = 0.0
        self._part = 0

    def ease(self) -> None:
        """Push further results to sessions that have read enough of the previous ones."""
        if self._late:
            self.wake()

    def want(self, session: Connection, ids: Collection[TaskId]) -> None:
        """Push the tasks to the session once they have ended, except those that it may not see.

        Raises `TooManyRequests` beyond `MOST_AWAITED`.
        """
        if len(session.awaited) + len(ids) > MOST_AWAITED:
            raise TooManyRequests(
                f"a session may await at most {MOST_AWAITED} tasks; unawait some, or use a second one"
            )
        for task_id in ids:
            self._wanted[task_id].add(session)
            session.awaited.add(task_id)

    def drop(self, session: Connection, ids: Iterable[TaskId]) -> None:
        """Stop awaiting these tasks for the session."""
        for task_id in list(ids):
            session.awaited.discard(task_id)
            if (sessions := self._wanted.get(task_id)) is not None:
                sessions.discard(session)
                if not sessions:
                    del self._wanted[task_id]

    def look_soon(self, ids: Iterable[TaskId]) -> None:
        """Check soon whether the tasks have ended already."""
        unknown = set(ids) - self._young.keys()
        if unknown:
            self._look |= unknown
            self.wake()

    async def look(self, session: Connection, ids: Collection[TaskId]) -> list[TaskId]:
        """Push the awaited tasks that have ended; return those that don't exist, or that the session can't see.

        The others are pushed once they have ended. While the store can't be read, none are returned. When this was left
        to the service, results were pushed in its next turn, and a client that asked for one after the other got a
        hundred a second.
        """
        unsure = [task_id for task_id in ids if not self._is_young(session, task_id)]
        missing: list[TaskId] = []
        try:
            for start in range(0, len(unsure), CHUNK):
                chunk = unsure[start : start + CHUNK]
                async with self._store.read_loosely() as connection:
                    found = await _statuses(connection, session, chunk)
                    missing += [task_id for task_id in chunk if task_id not in found]
                    if over := [task_id for task_id, status in found.items() if status in TERMINAL]:
                        self._push(await self._read_ended(connection, over))
        except StoreUnavailable:
            self.look_soon(unsure)
            return []
        self.ease()
        return missing

    def _is_young(self, session: Connection, task_id: TaskId) -> bool:
        young = self._young.get(task_id)
        return young is not None and (session.visibility is None or sees(session.principal, _Young(*young)))

    def awaits(self, task_id: TaskId) -> bool:
        """Return whether a session awaits the task."""
        return task_id in self._wanted

    def on_commit(self, batch: Batch) -> None:
        """Push the tasks that a commit has ended."""
        if not self._store.is_shared:
            self._remember(batch)
        if not self._wanted:
            return
        if batch.has_gap:
            self.look_soon(self._wanted)
        ended = {c.task.id: c.task for c in batch.tasks if c.task.id in self._wanted}
        if ended:
            self._push([task for task in ended.values() if task.status in TERMINAL])

    def _remember(self, batch: Batch) -> None:
        """Remember created tasks, and forget ended ones: no other server writes to the database."""
        young = self._young
        if len(young) > MOST_YOUNG or batch.has_gap:
            young.clear()
        for task, was in batch.tasks:
            if was is None:
                young[task.id] = (task.id, task.room, task.job_name, task.submitter, task.run_id)
            elif task.completed_at is not None:
                young.pop(task.id, None)

    def _push(self, ended: Iterable[Task]) -> None:
        """Push ended tasks to the sessions that have room for them; the others keep waiting."""
        by_session: dict[Connection, list[Task]] = defaultdict(list)
        given: dict[Connection, int] = defaultdict(int)
        for task in ended:
            crowded: set[Connection] = set()
            for session in self._wanted.pop(task.id, ()):
                if not session.outbox.has_room(given[session]):
                    crowded.add(session)
                    continue
                session.awaited.discard(task.id)
                if session.visibility is None or sees(session.principal, task):
                    by_session[session].append(task)
                    given[session] += size_of(task)
            if crowded:
                self._wanted[task.id] = crowded
                self._late.add(task.id)
        for session, found in by_session.items():
            session.push_tasks("result", [task_data(task) for task in found])

    async def turn(self) -> float:
        """Look up the requested tasks, and a part of all awaited ones. Raises `StoreUnavailable`."""
        now = asyncio.get_running_loop().time()
        if now - self._polled_at >= POLL_SECONDS / PARTS:
            self._polled_at, self._part = now, (self._part + 1) % PARTS
            self._look.update(task_id for task_id in self._wanted if hash(task_id) % PARTS == self._part)
        ids, self._look = [task_id for task_id in self._look - self._late if task_id in self._wanted], set()
        self._late &= self._wanted.keys()
        late = [task_id for task_id in self._late if self._has_room(task_id)][:LATE_CHUNK]
        self._late.difference_update(late)
        try:
            for start in range(0, len(ids), CHUNK):
                self._push(await self._ended(ids[start : start + CHUNK]))
            self._push(await self._ended(late))
        except BaseException:
            self._look.update(ids, late)
            raise
        return 0.0 if any(self._has_room(task_id) for task_id in self._late) else POLL_SECONDS / PARTS

    def _has_room(self, task_id: TaskId) -> bool:
        """Return whether a session that awaits the task has room for it."""
        return any(session.outbox.has_room() for session in self._wanted.get(task_id, ()))

    async def _ended(self, ids: list[TaskId]) -> list[Task]:
        if not ids:
            return []
        async with self._store.read_loosely() as connection:
            return await self._read_ended(connection, ids)

    async def _read_ended(self, connection: AsyncConnection, ids: list[TaskId]) -> list[Task]:
        """Return the ended ones of the tasks, up to a page's size; the rest is added to the late ones."""
        rows = (await connection.execute(_ENDED, {"ids": ids})).all()
        count = fitting([row.size for row in rows], MOST_OF_PAGE)
        found = await whole(connection, [to_task(row[:-1]) for row in rows[:count]])
        self._late.update(row.id for row in rows[count:])
        return found


async def _statuses(connection: AsyncConnection, session: Connection, ids: list[TaskId]) -> dict[TaskId, str]:
    """Return by id the status of the tasks that the session can see."""
    if session.visibility is None:
        return {task_id: status for task_id, (_, status) in (await read_tasks.states(connection, ids)).items()}
    found = await read_tasks.by_ids(connection, ids)
    return {task_id: task.status for task_id, task in found.items() if sees(session.principal, task)}
