"""Failures in groups: what failed and where, how often lately, and how many tasks are still failed because of it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import and_, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import WAITING, Status
from treadle_server.domain.visibility import Visibility
from treadle_server.store.read.filters import job_num
from treadle_server.store.read.visibility import within
from treadle_server.store.tables import failures, runs, tasks

LOOKED_AT = 10_000
"""How many of the latest failed runs are grouped: 10,000 take 50 ms, however many there are in all."""

MOST_GROUPS = 200
MOST_JOBS = 10
MINUTES = 60
MOST_OF_HOUR = 50_000
MOST_RETRYING = 2_000
"""How many of the latest failed runs are searched for tasks that wait for a retry, which every list of queues needs."""


@dataclass(slots=True)
class FailureGroup:
    """Runs that failed with the same error at the same place; the last one is described in full."""

    key: int
    last: tuple[int, int]
    last_at: datetime
    first_at: datetime
    runs: int = 0
    failed: int = 0
    retrying: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    minutes: list[int] = field(default_factory=lambda: [0] * MINUTES)
    kind: str = ""
    place: str = ""
    error: str | None = None
    task_id: str = ""


async def groups(
    connection: AsyncConnection,
    now: datetime,
    *,
    room: str | None = None,
    job: str | None = None,
    visibility: Visibility | None = None,
) -> tuple[list[FailureGroup], bool]:
    """Return the groups of the latest failed runs, last seen first, and whether there are failed runs beyond those."""
    where = [within(visibility, failures.c.room)]
    if room is not None:
        where.append(failures.c.room == room)
    if job is not None:
        where.append(failures.c.job_num == await job_num(connection, job))
    columns = (failures.c.key, failures.c.at, failures.c.task_seq, failures.c.run_id)
    latest = failures.c.at.desc(), failures.c.task_seq.desc()
    last = select(*columns).where(*where).order_by(*latest).limit(LOOKED_AT + 1).subquery()
    state = (tasks.c.status, tasks.c.run_id, tasks.c.job_name)
    statement = select(last, *state).join_from(last, tasks, tasks.c.seq == last.c.task_seq).order_by(last.c.at.desc())
    found: dict[int, FailureGroup] = {}
    rows = (await connection.execute(statement)).all()
    for key, at, seq, run, status, newest, job_name in rows[:LOOKED_AT]:
        if (group := found.get(key)) is None:
            group = found[key] = FailureGroup(key, (seq, run), at, at)
        group.runs += 1
        group.first_at = at
        group.jobs[job_name] += 1
        if 0 <= (ago := int((now - at).total_seconds() // 60)) < MINUTES:
            group.minutes[-1 - ago] += 1
        if newest == run:
            group.failed += status == Status.FAILED
            group.retrying += status in WAITING
    shown = list(found.values())[:MOST_GROUPS]
    await _tell(connection, {group.last: group for group in shown}, all_rooms=visibility is None)
    return shown, len(rows) > LOOKED_AT


async def _tell(connection: AsyncConnection, by_run: dict[tuple[int, int], FailureGroup], *, all_rooms: bool) -> None:
    """Add the details of each group's last run, and when the group was first seen, among all failures."""
    if not by_run:
        return
    earlier = failures.alias("earlier")
    first = select(func.min(earlier.c.at)).where(earlier.c.key == failures.c.key).correlate(failures).scalar_subquery()
    # A task that failed without a run, for example at its deadline, has the error itself.
    said = func.coalesce(runs.c.error, tasks.c.error)
    statement = (
        select(failures.c.task_seq, failures.c.run_id, failures.c.kind, failures.c.place, said, tasks.c.id, first)
        .outerjoin(runs, and_(runs.c.task_seq == failures.c.task_seq, runs.c.run_id == failures.c.run_id))
        .join(tasks, tasks.c.seq == failures.c.task_seq)
        .where(tuple_(failures.c.task_seq, failures.c.run_id).in_(list(by_run)))
    )
    for seq, run, kind, place, error, task_id, first_at in await connection.execute(statement):
        group = by_run[seq, run]
        group.kind, group.place, group.error, group.task_id = kind, place, error, task_id
        if all_rooms:
            group.first_at = first_at


async def retrying(connection: AsyncConnection, job_nums: Iterable[int]) -> dict[int, int]:
    """Return by job how many tasks failed and wait for a retry, among the last 2,000 failed runs."""
    nums = list(job_nums)
    if not nums:
        return {}
    columns = (failures.c.task_seq, failures.c.run_id, failures.c.job_num)
    latest = failures.c.at.desc(), failures.c.task_seq.desc()
    last = select(*columns).order_by(*latest).limit(MOST_RETRYING).subquery()
    its_last = and_(tasks.c.seq == last.c.task_seq, tasks.c.run_id == last.c.run_id)
    statement = (
        select(last.c.job_num, func.count())
        .join_from(last, tasks, its_last)
        .where(tasks.c.status.in_(WAITING), last.c.job_num.in_(nums))
        .group_by(last.c.job_num)
    )
    counted = await connection.execute(statement)
    return {int(num): int(n) for num, n in counted}


async def of_last_hour(connection: AsyncConnection, now: datetime) -> list[tuple[int, bool, datetime]]:
    """Return the failed runs of the last hour, at most 50,000: the job, whether the task failed for good, and when."""
    statement = (
        select(failures.c.job_num, failures.c.is_final, failures.c.at)
        .where(failures.c.at > now - timedelta(hours=1))
        .order_by(failures.c.at.desc())
        .limit(MOST_OF_HOUR)
    )
    return [(num, is_final, at) for num, is_final, at in await connection.execute(statement)]
