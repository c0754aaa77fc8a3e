"""Artifacts that are visible to users: those that are stored and have not expired."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.artifacts import Artifact
from treadle_server.domain.tasks import Run, Task
from treadle_server.store.bound_lists import is_among
from treadle_server.store.past_runs import past_runs
from treadle_server.store.tables import artifacts, tasks
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.artifacts import ROWS
from treadle_server.store.transaction.load import to_run, to_task


@dataclass(frozen=True, slots=True)
class Announced:
    """An artifact in any state, with its task, and its run if that is over."""

    artifact: Artifact
    task: Task
    run: Run | None


def _seen(task_seq: int, run_id: int | None, now: datetime) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [
        artifacts.c.task_seq == task_seq,
        artifacts.c.state == "stored",
        or_(artifacts.c.expires_at.is_(None), artifacts.c.expires_at > now),
    ]
    return conditions if run_id is None else [*conditions, artifacts.c.run_id == run_id]


async def page(
    connection: AsyncConnection, task_seq: int, *, run_id: int | None, now: datetime, limit: int, offset: int
) -> tuple[list[Artifact], int]:
    """Return a task's artifacts, the last run's first and each run's by name, and how many there are."""
    where = _seen(task_seq, run_id, now)
    total = (await connection.execute(select(func.count()).select_from(artifacts).where(*where))).scalar_one()
    ordered = ROWS.where(*where).order_by(artifacts.c.run_id.desc(), artifacts.c.name)
    rows = await connection.execute(ordered.limit(limit).offset(offset))
    return [Artifact(*row) for row in rows], total


async def find(
    connection: AsyncConnection, task_seq: int, name: str, *, run_id: int | None, now: datetime
) -> Artifact | None:
    """Return the artifact of that run or, without `run_id`, of the last run that has one of that name."""
    where = (*_seen(task_seq, run_id, now), artifacts.c.name == name)
    row = (await connection.execute(ROWS.where(*where).order_by(artifacts.c.run_id.desc()).limit(1))).first()
    return None if row is None else Artifact(*row)


async def announced(connection: AsyncConnection, artifact_id: str) -> Announced | None:
    """Return the artifact with this id, whatever its state, with its task and run; None when there is none."""
    row = (await connection.execute(ROWS.where(artifacts.c.id == artifact_id))).first()
    if row is None:
        return None
    artifact = Artifact(*row)
    of_artifact = select_tasks().where(tasks.c.seq == artifact.task_seq)
    task = (await connection.execute(of_artifact)).first()
    if task is None:
        return None  # both were removed in between
    ended = past_runs(of=lambda seq: seq == artifact.task_seq)
    run = (await connection.execute(select(ended).where(ended.c.run_id == artifact.run_id))).first()
    return Announced(artifact, to_task(task), None if run is None else to_run(run))


async def known(connection: AsyncConnection, locations: Collection[str]) -> set[str]:
    """Return which of the locations (keys in the artifact store) belong to an artifact."""
    statement = select(artifacts.c.location).where(is_among(artifacts.c.location, "keys"))
    return set((await connection.execute(statement, {"keys": locations})).scalars())
