"""Find the tasks with rare statuses or tags by their numbers, independently of the database's statistics.

When the kept counts say that few tasks have a status, they are found by the indexes of open or held tasks: a list
of failed tasks need not look through completed ones.

A planner estimates how many tasks have a tag from statistics that are old, or from another tag. Here they are counted,
up to `RARE`, and the statement leaves the planner no choice: for a rare tag the tasks are read by their numbers, and no
other index can be used; for a common one the list is read in its own order, and each task's tags are looked up.
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
"""Most tasks that are read for one page of them, in any order."""

RARE = 50_000
"""Most tasks that a rare tag has."""


async def few(
    connection: AsyncConnection, statuses: Collection[Status], job_num: int | None
) -> ColumnElement[bool] | None:
    """Return the condition that a task is in these statuses, of the job or of all, by numbers; None when they are many.

    None for completed tasks too, which have no index.
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
        # The index of leased tasks is used only when the query repeats its condition literally.
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
    """Return a query for the numbers of the tasks that have one of the tags with these keys."""
    return select(task_tags.c.task_seq).where(task_tags.c.key.in_(keys))


async def are_rare(connection: AsyncConnection, those: Select[Any]) -> bool:
    """Return whether the query finds at most `RARE` rows."""
    return await count(connection, those.limit(RARE + 1)) <= RARE


def has_one_of(keys: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition that a task has one of the tags with these keys, looked up for each task."""
    # Unlike EXISTS, a scalar subquery is never turned into a join.
    of_it = tagged(keys).where(task_tags.c.task_seq == tasks.c.seq).limit(1)
    return of_it.correlate(tasks).scalar_subquery().is_not(None)
