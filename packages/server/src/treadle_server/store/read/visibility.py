"""Whose rows are read: the rooms of a `Visibility` as conditions."""

from typing import Any

from sqlalchemy import ColumnElement, and_, exists, false, func, or_, select, true

from treadle.wire.names import SHARED_ROOMS
from treadle_server.domain.jobs import NO_POOL
from treadle_server.domain.visibility import OwnWorkers, Visibility
from treadle_server.store.tables import jobs, worker_jobs, workers


def within(visibility: Visibility | None, room: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that the room in a column is read; None reads all.

    Rooms by name are looked up in an index. Beginnings are compared as they are: LIKE takes no heed of case on SQLite.
    """
    if visibility is None:
        return true()
    named = room.in_(sorted(visibility.names)) if len(visibility.names) != 1 else room == next(iter(visibility.names))
    return or_(named, *(func.substr(room, 1, len(prefix)) == prefix for prefix in visibility.prefixes))


def seen_from(room: str | None, of: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that the room in a column is `room` or one that is shared; None sees from all rooms."""
    return true() if room is None else of.in_(sorted({room, *SHARED_ROOMS}))


def reads(visibility: Visibility | None, room: str | None) -> ColumnElement[bool]:
    """Return the condition that the room from which is looked is read, if it is one: from another nothing is seen."""
    return true() if visibility is None or room is None or visibility.admits(room) else false()


def jobs_within(visibility: Visibility | None) -> ColumnElement[bool]:
    """Return the condition that a job is seen: those of the shared rooms are from every room that is read."""
    if visibility is None or visibility.is_blind:
        return within(visibility, jobs.c.room)
    return or_(within(visibility, jobs.c.room), jobs.c.room.in_(sorted(SHARED_ROOMS)))


_ID = func.coalesce(workers.c.group, NO_POOL).concat("/").concat(func.coalesce(workers.c.name, NO_POOL))
"""A worker's group and name as `access.rights.worker_id` writes them."""


def workers_within(visibility: Visibility | None, own: OwnWorkers | None = None) -> ColumnElement[bool]:
    """Return the condition that a worker is seen: it serves a job that is seen, or is the asker's own."""
    if visibility is None:
        return true()
    serves = select(worker_jobs.c.job_num).join(jobs, jobs.c.num == worker_jobs.c.job_num)
    seen = exists(serves.where(worker_jobs.c.worker_id == workers.c.id, jobs_within(visibility)).correlate(workers))
    return seen if own is None else or_(seen, and_(workers.c.owner == own.owner, within(own.named, _ID)))
