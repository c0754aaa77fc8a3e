"""SQL conditions for the rooms of a `Visibility`."""

from typing import Any

from sqlalchemy import ColumnElement, and_, exists, false, func, or_, select, true

from treadle.wire.names import SHARED_ROOMS
from treadle_server.domain.jobs import NO_POOL
from treadle_server.domain.visibility import OwnWorkers, Visibility
from treadle_server.store.tables import jobs, worker_jobs, workers


def within(visibility: Visibility | None, room: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that the room in a column can be read; None allows all.

    Rooms by name can use an index. Prefixes are not compared with LIKE, which ignores case on SQLite.
    """
    if visibility is None:
        return true()
    named = room.in_(sorted(visibility.names)) if len(visibility.names) != 1 else room == next(iter(visibility.names))
    return or_(named, *(func.substr(room, 1, len(prefix)) == prefix for prefix in visibility.prefixes))


def seen_from(room: str | None, of: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that the room in a column is `room` or a shared one; None allows all."""
    return true() if room is None else of.in_(sorted({room, *SHARED_ROOMS}))


def reads(visibility: Visibility | None, room: str | None) -> ColumnElement[bool]:
    """Return the condition that `room` can be read: nothing is visible from one that can't. None allows all."""
    return true() if visibility is None or room is None or visibility.admits(room) else false()


def jobs_within(visibility: Visibility | None) -> ColumnElement[bool]:
    """Return the condition that a job is visible; those of shared rooms are, to everybody who can read some room."""
    if visibility is None or visibility.is_blind:
        return within(visibility, jobs.c.room)
    return or_(within(visibility, jobs.c.room), jobs.c.room.in_(sorted(SHARED_ROOMS)))


_ID = func.coalesce(workers.c.group, NO_POOL).concat("/").concat(func.coalesce(workers.c.name, NO_POOL))
"""A worker's group and name in the form of `access.rights.worker_id`."""


def workers_within(visibility: Visibility | None, own: OwnWorkers | None = None) -> ColumnElement[bool]:
    """Return the condition that a worker is visible: it serves a visible job, or is the user's own."""
    if visibility is None:
        return true()
    serves = select(worker_jobs.c.job_num).join(jobs, jobs.c.num == worker_jobs.c.job_num)
    seen = exists(serves.where(worker_jobs.c.worker_id == workers.c.id, jobs_within(visibility)).correlate(workers))
    return seen if own is None else or_(seen, and_(workers.c.owner == own.owner, within(own.named, _ID)))
