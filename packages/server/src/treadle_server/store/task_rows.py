"""A task's row as it is read whole: where it is stands in `tasks`, what it is to do in `task_specs`."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, join, select

from treadle_server.domain.tasks import TASK_FIELDS
from treadle_server.store.bound_lists import is_same
from treadle_server.store.tables import task_specs, tasks

COLUMNS: Mapping[str, Column[Any]] = {
    name: tasks.c[name] if name in tasks.c else task_specs.c[name] for name in TASK_FIELDS
}
"""Each field of a `Task`, in their order, as the column that has it."""

SPEC = tuple(column.name for column in task_specs.c)
"""The columns of what a task is to do."""

STATE = tuple(name for name in TASK_FIELDS if name in tasks.c)
"""The columns of where it is."""


WITH_SPECS = join(tasks, task_specs, is_same(task_specs.c.seq, tasks.c.seq))
"""The tasks, each with what it is to do: that is looked up, whatever PostgreSQL knows of the tables."""


def select_tasks(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the statement that reads tasks whole, and behind that what `more` there is to read of them."""
    return select(*COLUMNS.values(), *more).select_from(WITH_SPECS)


def locked(statement: Select[Any], *, skip: bool = False) -> Select[Any]:
    """Return the same with both rows of each task locked until the commit; SQLite's writer has locked all.

    Of a row that it waited for PostgreSQL reads what stands there then, of one that is only joined to it what stood
    there before: an edit of what the task is to do would be missed. With `skip` those that another one has locked are
    left to it.
    """
    return statement.with_for_update(of=(tasks, task_specs), skip_locked=skip)
