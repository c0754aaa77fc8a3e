"""Tasks with a tag, along the index of tags, whatever the database believes to know of them.

A planner guesses how many tasks have a tag from statistics that are old, or of another tag. Here it is looked up, no
further than `RARE`, and what follows leaves no choice: of a rare tag the tasks are read by their numbers, and no other
index is offered; of a common one the list is read in its own order, and each task looked up in the index.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.store.read.walks import count, numbered
from treadle_server.store.tables import task_tags, tasks

RARE = 50_000
"""Tasks that have a rare tag at most."""


async def is_rare(connection: AsyncConnection, keys: Sequence[int]) -> bool:
    """Return whether no more than `RARE` tasks have one of the keys."""
    return await are_rare(connection, select(task_tags.c.task_seq).where(task_tags.c.key.in_(keys)))


async def are_rare(connection: AsyncConnection, those: Select[Any]) -> bool:
    """Return whether there are no more than `RARE` of them."""
    return await count(connection, those.limit(RARE + 1)) <= RARE


def has_one_of(keys: Sequence[int], dialect: str, *, rare: bool) -> ColumnElement[bool]:
    """Return the condition that a task has one of the tags with these keys; `rare` is what `is_rare` said."""
    having = select(task_tags.c.task_seq).where(task_tags.c.key.in_(keys))
    if not rare:
        # A subquery for a value is never made a join, as EXISTS is.
        found = having.where(task_tags.c.task_seq == tasks.c.seq).limit(1).correlate(tasks).scalar_subquery()
        return found.is_not(None)
    return numbered(having, dialect)
