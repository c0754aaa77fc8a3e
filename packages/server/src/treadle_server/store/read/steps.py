"""The steps that a task keeps, as others see them."""

import typing
from collections.abc import Collection
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import Select, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.steps import STEP_FIELDS, Step
from treadle_server.store.base import Dialect
from treadle_server.store.bound_lists import NUMBER, bound, is_among
from treadle_server.store.prepared import Prepared, Rows
from treadle_server.store.read.shown import fitting
from treadle_server.store.sqlite.writer import Statements
from treadle_server.store.tables import task_steps

MOST_TEXT = 4_000_000
"""Characters of the results that are read at once, unless the first has more."""

_c = task_steps.c


async def of_task(connection: AsyncConnection, task_seq: int, *, first: int, most: int) -> list[Step]:
    """Return up to `most` steps from number `first` on, fewer when their results are large."""
    among = (_c.task_seq == task_seq, _c.number >= first)
    sizes = select(func.coalesce(func.length(cast(_c.result, Text)), 0)).where(*among).order_by(_c.number).limit(most)
    count = fitting(list((await connection.execute(sizes)).scalars()), MOST_TEXT)
    columns = [_c[name] for name in STEP_FIELDS]
    rows = await connection.execute(select(*columns).where(*among).order_by(_c.number).limit(count))
    return [Step(*row) for row in rows]


async def of_tasks(
    connection: Statements, seqs: Collection[int], *, most_each: int, most_in_all: int
) -> dict[int, list[Step]]:
    """Return all steps of many tasks, by the task's seq, in two statements however many there are.

    Left out are tasks whose results have more than `most_each` characters, and those with which all would have more
    than `most_in_all`.
    """
    chosen, total = [], 0
    for seq, size in await _of_many(connection, _sizes, seqs):
        if size <= most_each and total + size <= most_in_all:
            chosen.append(seq)
            total += size
    if not chosen:
        return {}
    found = (Step(*row) for row in await _of_many(connection, _all, chosen))
    return {seq: list(steps) for seq, steps in groupby(found, key=lambda step: step.task_seq)}


async def _of_many(connection: Statements, asked: Prepared, seqs: Collection[int]) -> Rows:
    """Return the rows of a statement about many tasks; on PostgreSQL as its driver gives them, which is half the time.

    Of ten thousand that wake at once each claim brings steps.
    """
    dialect = typing.cast("Dialect", connection.dialect.name)
    given = {"seqs": bound(dialect, seqs)}
    if dialect == "postgresql":
        return await asked.rows_beside(typing.cast("AsyncConnection", connection), dialect, **given)
    return [tuple(row) for row in await connection.execute(asked.build(dialect), given)]


@cache
def sizes_of_many(dialect: Dialect) -> Select[Any]:
    """Return the statement that tells how many characters the results of each of the tasks `seqs` have."""
    total = func.sum(func.coalesce(func.length(cast(_c.result, Text)), 0))
    among = is_among(dialect, _c.task_seq, "seqs", NUMBER)
    return select(_c.task_seq, total).where(among).group_by(_c.task_seq).order_by(_c.task_seq)


@cache
def all_of_many(dialect: Dialect) -> Select[Any]:
    """Return the statement that reads the steps of the tasks `seqs`, task by task."""
    columns = [_c[name] for name in STEP_FIELDS]
    among = is_among(dialect, _c.task_seq, "seqs", NUMBER)
    return select(*columns).where(among).order_by(_c.task_seq, _c.number)


_sizes, _all = Prepared(sizes_of_many), Prepared(all_of_many)


async def outline(connection: AsyncConnection, task_seq: int) -> list[Step]:
    """Return all steps that a task keeps, in their order, without their results."""
    columns = [_c[name] for name in STEP_FIELDS if name != "result"]
    rows = await connection.execute(select(*columns).where(_c.task_seq == task_seq).order_by(_c.number))
    return [Step(**row, result=None) for row in rows.mappings()]
