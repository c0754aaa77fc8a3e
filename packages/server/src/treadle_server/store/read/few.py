"""Tasks in statuses, or with a tag, that few have: named by their numbers, whatever the database believes to know.

Those in such statuses are named by the indexes of what is open or held, where the kept counts say so: a list of what
failed need not look through what was completed.

How many tasks have a tag a planner guesses from statistics that are old, or of another tag. Here it is looked up, no
further than `RARE`, and what follows leaves no choice: of a rare tag the tasks are read by their numbers, and no other
index is offered; of a common one the list is read in its own order, and each task looked up in the index.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, false, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import LEASED, Status
from treadle_server.store.bound_lists import is_found_by, is_one_of
from treadle_server.store.read import counts
from treadle_server.store.read.walks import count
from treadle_server.store.tables import status_in, task_tags, tasks

FEW = 5_000
"""Tasks that are read for a page of them at most, whatever its order."""

RARE = 50_000
"""Tasks that have a rare tag at most."""


async def few(
    connection: AsyncConnection, statuses: Collection[Status], job_num: int | None
) -> ColumnElement[bool] | None:
    """Return the condition that a task is one of those in the statuses, of the job or of all; None when they are many.

    Those that are completed have no index.
    """
    if Status.COMPLETED in statuses:
        return None
    found = await counts.by_lane(connection, statuses, job_num)
    if sum(one.n for one in found) > FEW:
        return None
    parts = []
    if pending := {one.lane for one in found if one.status == Status.PENDING}:
        parts.append([is_one_of(tasks.c.lane, sorted(pending)), status_in(Status.PENDING)])
    if leased := {Status(one.status) for one in found} & LEASED:
        # The index of leased tasks is used only when its own condition stands in the query word by word.
        parts.append([status_in(*LEASED), status_in(*leased)])
    held: dict[Status, set[int]] = defaultdict(set)
    for one in found:
        if (status := Status(one.status)) not in {Status.PENDING, *LEASED}:
            held[status].add(one.job_num)
    parts += [[is_one_of(tasks.c.job_num, sorted(nums)), status_in(status)] for status, nums in held.items()]
    if not parts:
        return false()
    return is_found_by(tasks.c.seq, union_all(*(select(tasks.c.seq).where(*part) for part in parts)))


def tagged(keys: Sequence[int]) -> Select[Any]:
    """Return the numbers of the tasks that have one of the tags with these keys."""
    return select(task_tags.c.task_seq).where(task_tags.c.key.in_(keys))


async def are_rare(connection: AsyncConnection, those: Select[Any]) -> bool:
    """Return whether there are no more than `RARE` of them."""
    return await count(connection, those.limit(RARE + 1)) <= RARE


def has_one_of(keys: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition that a task has one of the tags with these keys, looked up for each task."""
    # A subquery for a value is never made a join, as EXISTS is.
    of_it = tagged(keys).where(task_tags.c.task_seq == tasks.c.seq).limit(1)
    return of_it.correlate(tasks).scalar_subquery().is_not(None)
