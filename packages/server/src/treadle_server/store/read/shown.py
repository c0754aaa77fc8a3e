"""What lists read of a task: large values are left out, so that a list is bounded in bytes as well as in rows.

A thousand payloads of a megabyte would be a gigabyte in the server and in the client, which shows only a few
characters.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Integer, Select, Text, case, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.tasks import Task
from treadle_server.store.tables import tasks
from treadle_server.store.task_rows import COLUMNS, WITH_SPECS, select_tasks
from treadle_server.store.transaction.load import to_task

MOST_SHOWN = 16 * 1024
"""Most characters of a value in lists; a longer value is left out, a longer error is cut."""

VALUES = ("payload", "result", "checkpoint")
"""The fields of a task that are JSON of any size."""

LEFT_OUT = ""
"""Marks a value that was not read; it is not valid JSON."""


def _text(name: str) -> ColumnElement[str]:
    return cast(COLUMNS[name], Text)


def _short(column: Column[Any]) -> ColumnElement[Any]:
    if column.name in VALUES:
        text = _text(column.name)
        return case((func.length(text) > MOST_SHOWN, LEFT_OUT), else_=text).label(column.name)
    if column.name == "error":
        # One more character than is shown, to tell that it was cut.
        return func.substr(column, 1, MOST_SHOWN + 1).label(column.name)
    return column


_LISTED = tuple(map(_short, COLUMNS.values()))
"""The columns of a task in a list, for `to_task`."""

SIZE: ColumnElement[int] = sum(
    (func.coalesce(func.length(_text(name)), 0) for name in (*VALUES, "error")), start=cast(0, Integer)
).label("size")
"""How many characters a task's values have, including those that are left out."""


def listed(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the statement that reads tasks as lists show them, with `more` columns at the end."""
    return select(*_LISTED, *more).select_from(WITH_SPECS)


def size_of(task: Task) -> int:
    """Return how many characters the values of a whole task have."""
    return sum(len(getattr(task, name) or "") for name in (*VALUES, "error"))


def left_out(task: Task) -> list[str]:
    """Return the names of the values that a list leaves out, and "error" if it is cut."""
    values = [(name, getattr(task, name)) for name in VALUES]
    names = [name for name, text in values if text is not None and (text == LEFT_OUT or len(text) > MOST_SHOWN)]
    return [*names, "error"] if task.error is not None and len(task.error) > MOST_SHOWN else names


def fitting(sizes: Sequence[int], most: int) -> int:
    """Return how many leading values of these sizes fit into `most` in all, at least one."""
    passed = 0
    for i, size in enumerate(sizes):
        passed += size
        if i and passed > most:
            return i
    return len(sizes)


async def whole(connection: AsyncConnection, listed: Sequence[Task]) -> list[Task]:
    """Return a list's tasks with the values that were left out; a task that was removed meanwhile is dropped."""
    short = {task.seq for task in listed if left_out(task)}
    read = await _read(connection, short)
    return [read.get(task.seq, task) for task in listed if task.seq in read or task.seq not in short]


async def _read(connection: AsyncConnection, seqs: Collection[int]) -> dict[int, Task]:
    if not seqs:
        return {}
    rows = await connection.execute(select_tasks().where(tasks.c.seq.in_(seqs)))
    return {task.seq: task for task in map(to_task, rows)}
