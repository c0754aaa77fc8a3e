"""The runs of a task: those that are over, wherever they are stored, and the open one, which is in the task's row."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Subquery, and_, case, func, null, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import WorkerId
from treadle_server.domain.tasks import RUN_FIELDS, Task
from treadle_server.domain.usage import usage_of_run
from treadle_server.store.past_runs import past_runs
from treadle_server.store.tables import runs, workers

MOST_TEXT = 4_000_000
"""Most characters of errors and tracebacks that observers of a task receive: those of the last runs."""

TEXTS = ("error", "traceback")
"""The fields of a run that are text of any size."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it is shown."""

    task_id: str
    run_id: int
    status: str
    """An outcome, or `claimed` or `running`."""
    reason: str | None
    error: str | None
    traceback: str | None
    worker_id: str | None
    usage: float | None
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    worker_name: str | None
    left_out: list[str] | None = None
    """Which of its `TEXTS` were not read."""


_SHOWN = ("worker_name", *(name for name in RUN_FIELDS if name not in {"task_seq", "digest"}))
"""The columns that are shown as they are."""


def _upto(ended: Subquery, most_text: int) -> list[Any]:
    """Return the columns of a run, with its texts if those from it on have at most `most_text` characters together.

    The last run's texts are always included.
    """
    error, traceback = sizes = [func.coalesce(func.length(ended.c[name]), 0) for name in TEXTS]
    later = func.sum(error + traceback).over(order_by=ended.c.run_id.desc())
    is_long: ColumnElement[bool] = and_(later > most_text, func.max(ended.c.run_id).over() != ended.c.run_id)
    short = [
        case((is_long, null()), else_=ended.c[name]).label(name) if name in TEXTS else ended.c[name]
        for name in RUN_FIELDS
    ]
    cut = [case((is_long, size > 0), else_=False).label(f"no_{name}") for name, size in zip(TEXTS, sizes, strict=True)]
    return [*short, *cut]


async def of_task(
    connection: AsyncConnection, task: Task, *, most: int | None = None, most_text: int | None = None
) -> list[RunView]:
    """Return the task's runs in order; the last may be open. A worker that was removed has no name.

    Earlier runs than the last `most` are left out, and errors and tracebacks of earlier runs beyond `most_text`
    characters; None means no limit.
    """
    ended = past_runs(of=lambda seq: seq == task.seq)
    statement = (
        select(*(ended.c if most_text is None else _upto(ended, most_text)), workers.c.name.label("worker_name"))
        .join_from(ended, workers, workers.c.id == ended.c.worker_id, isouter=True)
        .order_by(ended.c.run_id)
    )
    if most is not None:
        statement = statement.where(ended.c.run_id > task.run_id - most)
    found = [
        RunView(
            task_id=task.id,
            **{name: getattr(row, name) for name in _SHOWN},
            left_out=None if most_text is None else [name for name in TEXTS if getattr(row, f"no_{name}")] or None,
        )
        for row in await connection.execute(statement)
    ]
    if task.is_leased and task.claimed_at is not None:
        found.append(await _open(connection, task, task.claimed_at))
    return found


async def workers_of(connection: AsyncConnection, task: Task, run_id: int | None) -> set[WorkerId]:
    """Return the workers of the task's last run, and of the run with number `run_id` if it is over."""
    found = {task.worker_id} if task.worker_id is not None else set()
    if run_id is not None:
        statement = select(runs.c.worker_id).where(runs.c.task_seq == task.seq, runs.c.run_id == run_id)
        if (worker_id := (await connection.execute(statement)).scalar()) is not None:
            found.add(WorkerId(worker_id))
    return found


async def _open(connection: AsyncConnection, task: Task, claimed_at: datetime) -> RunView:
    name = (await connection.execute(select(workers.c.name).where(workers.c.id == task.worker_id))).scalar()
    run = (task.run_id, str(task.status), None, None, None, task.worker_id, usage_of_run(task))
    return RunView(task.id, *run, claimed_at, task.started_at, None, name)
