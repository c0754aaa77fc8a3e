"""The stored steps of tasks."""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Select, Text, bindparam, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.steps import STEP_FIELDS, Step
from treadle_server.store.bound_lists import is_among, is_found_by
from treadle_server.store.prepared import Prepared
from treadle_server.store.read.shown import fitting
from treadle_server.store.sqlite.writer import Statements
from treadle_server.store.tables import task_steps
from treadle_server.store.types import instant

MOST_TEXT = 4_000_000
"""Most characters of results that are read at once, unless the first alone has more."""

_c = task_steps.c
_COLUMNS = tuple(_c[name] for name in STEP_FIELDS)
_SIZE = func.coalesce(func.length(cast(_c.result, Text)), 0)


async def of_task(connection: AsyncConnection, task_seq: int, *, first: int, most: int) -> list[Step]:
    """Return up to `most` steps of a task from number `first` on, fewer when their results are large."""
    among = (_c.task_seq == task_seq, _c.number >= first)
    sizes = select(_SIZE).where(*among).order_by(_c.number).limit(most)
    count = fitting(list((await connection.execute(sizes)).scalars()), MOST_TEXT)
    rows = await connection.execute(select(*_COLUMNS).where(*among).order_by(_c.number).limit(count))
    return [Step(*row) for row in rows]


async def of_tasks(
    connection: Statements, seqs: Collection[int], *, most_each: int, most_in_all: int
) -> dict[int, list[Step]]:
    """Return all steps of many tasks, by the task's `seq`.

    Tasks whose results have more than `most_each` characters are left out, and the largest of the others until all
    together have no more than `most_in_all`.
    """
    bounds = {"most_each": most_each, "most_in_all": most_in_all}
    found = map(_step_of, await OF_MANY.rows_on(connection, seqs=seqs, **bounds))
    return {seq: list(steps) for seq, steps in groupby(found, key=lambda step: step.task_seq)}


def _step_of(row: Sequence[Any]) -> Step:
    """Return the step of a driver's row.

    A fast path, because when ten thousand tasks wake at once each claim reads steps.
    """
    step = Step(*row)
    if isinstance(step.at, int):
        step.at = instant(step.at)
        step.until = None if step.until is None else instant(step.until)
        step.received_at = None if step.received_at is None else instant(step.received_at)
    return step


def _of_many() -> Select[Any]:
    size = func.sum(_SIZE)
    sizes = (
        select(_c.task_seq, func.sum(size).over(order_by=(size, _c.task_seq)).label("in_all"))
        .where(is_among(_c.task_seq, "seqs"))
        .group_by(_c.task_seq)
        .having(size <= bindparam("most_each"))
        .subquery()
    )
    small = select(sizes.c.task_seq).where(sizes.c.in_all <= bindparam("most_in_all"))
    return select(*_COLUMNS).where(is_found_by(_c.task_seq, small)).order_by(_c.task_seq, _c.number)


OF_MANY = Prepared(_of_many())
"""The steps of the tasks `seqs`, task by task, as far as their results are small enough."""


async def outline(connection: AsyncConnection, task_seq: int, *, most: int | None = None) -> list[Step]:
    """Return the steps of a task in order, the last `most` of them or all, without their results."""
    columns = [_c[name] for name in STEP_FIELDS if name != "result"]
    last = select(*columns).where(_c.task_seq == task_seq).order_by(_c.number.desc()).limit(most)
    rows = (await connection.execute(last)).mappings().all()
    return [Step(**row, result=None) for row in reversed(rows)]
