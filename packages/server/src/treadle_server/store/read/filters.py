"""What a `TaskFilter` means in SQL, and when its count is known without counting; `matching.py` says it in memory."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from operator import eq
from typing import Any
from uuid import UUID

from pydantic import PrivateAttr
from sqlalchemy import (
    BinaryExpression,
    Column,
    ColumnElement,
    Interval,
    String,
    and_,
    cast,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle.wire.ids import is_uuid
from treadle.wire.names import SHARED_ROOMS, InvalidJobName, parse_job_name
from treadle.wire.sealed import MARK
from treadle.wire.status import LEASED, Status
from treadle_server.domain.failures import read as read_key
from treadle_server.domain.visibility import Visibility
from treadle_server.store.read import counts, tagged
from treadle_server.store.read.visibility import within
from treadle_server.store.tables import failures, jobs, tasks, workers
from treadle_server.store.transaction.tags import keys_wanted
from treadle_server.store.types import BigKey

_UNCOUNTED = TaskFilter.model_fields.keys() - {"job", "status"}
"""The parts of a filter of which the kept counts know nothing."""

COUNT_CAP = 10_000
"""Matches that no kept count covers are counted up to here."""

MOST_OF_GROUP = 100_000
"""Failed runs of a group among which its tasks are looked for, the last ones."""

NO_JOB = -1
"""The number of a job that does not exist: nothing matches it."""


class SeenFilter(TaskFilter):
    """A filter that means no tasks but those in the rooms that the asker reads."""

    _visibility: Visibility = PrivateAttr(default_factory=Visibility)


def seen(wanted: TaskFilter, visibility: Visibility | None) -> TaskFilter:
    """Return the filter, narrowed to the rooms that are read; None: all are."""
    if visibility is None:
        return wanted
    narrowed = SeenFilter.model_construct(wanted.model_fields_set, **dict(wanted))
    narrowed._visibility = visibility  # noqa: SLF001 - it is no field, which a client could give
    return narrowed


def visibility_of(wanted: TaskFilter) -> Visibility | None:
    """Return to which rooms a filter is narrowed; None: to none."""
    return wanted._visibility if isinstance(wanted, SeenFilter) else None  # noqa: SLF001 - as above


def status_is(*statuses: Status) -> ColumnElement[bool]:
    """Return the condition that a task is in one of the statuses, spelt out so that partial indexes apply."""
    words = [f"'{status.value}'" for status in sorted(statuses)]
    if len(words) == 1:
        return literal_column(f"tasks.status = {words[0]}")
    condition: ColumnElement[bool] = literal_column(f"tasks.status IN ({', '.join(words)})")
    return condition


def _statuses(wanted: Sequence[Status], *, plain: bool) -> list[ColumnElement[bool]]:
    """Return the conditions that a task is in one of the statuses; those that are `plain` offer no index."""
    if not wanted:
        return [literal_column("1 = 0")]
    if plain:
        return [tasks.c.status.concat("").in_([status.value for status in wanted])]
    conditions = [status_is(*wanted)]
    if set(wanted) < LEASED:
        # The index of leased tasks is used only when its own condition stands in the query word by word.
        conditions.append(status_is(*LEASED))
    return conditions


async def job_num(connection: AsyncConnection, full_name: str) -> int:
    """Return the number of the job, or `NO_JOB`; a deleted job still has its history."""
    try:
        room, category, name = parse_job_name(full_name)
    except InvalidJobName:
        return NO_JOB
    statement = select(jobs.c.num).where(jobs.c.room == room, jobs.c.category == category, jobs.c.name == name)
    found = (await connection.execute(statement)).scalar()
    return NO_JOB if found is None else found


class Where(list[ColumnElement[bool]]):
    """Conditions, all of which a task must satisfy."""

    is_narrow: bool = False
    """Whether they name few tasks by their numbers: then the others offer no index, by which more would be read."""

    def and_status(self, statuses: Collection[Status]) -> "Where":
        """Return these and that a task is in one of the statuses."""
        found = Where([*self, *_statuses(sorted(statuses), plain=self.is_narrow)])
        found.is_narrow = self.is_narrow
        return found


async def conditions(connection: AsyncConnection, wanted: TaskFilter) -> Where:
    """Return the conditions that a task must satisfy, all of them."""
    found = Where()
    for tag in wanted.tag or ():
        keys = keys_wanted(tag)
        # By one rare tag all is read; whether what was read has the others is looked up.
        is_rare = not found.is_narrow and await tagged.is_rare(connection, keys)
        found.append(tagged.has_one_of(keys, connection.dialect.name, rare=is_rare))
        found.is_narrow = found.is_narrow or is_rare
    if wanted.failure is not None:
        found.append(_of_group(wanted.failure))
    visibility = visibility_of(wanted)
    if wanted.room is not None:
        found.append(tasks.c.room == wanted.room)
    if visibility is not None and (wanted.room is None or not visibility.admits(wanted.room)):
        found.append(within(visibility, tasks.c.room.concat("") if found.is_narrow else tasks.c.room))
    if wanted.status is not None:
        found += _statuses(wanted.status, plain=found.is_narrow)
    if wanted.job is not None:
        found.append(tasks.c.job_num == await job_num(connection, wanted.job))
    if wanted.target is not None:
        found.append(tasks.c.target == wanted.target)
    if wanted.worker is not None:
        found.append(tasks.c.worker_id.in_(await worker_ids(connection, [wanted.worker])))
    if wanted.id is not None:
        found.append(tasks.c.id.between(*ids_from(wanted.id)))
    if wanted.flow is not None:
        found.append(tasks.c.flow_id == wanted.flow)
    if wanted.text is not None:
        found.append(_holding(wanted.text))
    found += _of_its_time(wanted, connection.dialect.name)
    found += await _unlike(connection, wanted)
    if found.is_narrow or (wanted.status and LEASED.issuperset(wanted.status)):
        found[:] = among_leased(found)
    return found


async def worker_ids(connection: AsyncConnection, called: Sequence[str]) -> list[str]:
    """Return the ids of the workers that are called so, by name or by id."""
    found = [word for word in called if is_uuid(word)]
    if names := [word for word in called if not is_uuid(word)]:
        found += (await connection.execute(select(workers.c.id).where(workers.c.name.in_(names)))).scalars()
    return found


def _of_its_time(wanted: TaskFilter, dialect: str) -> list[ColumnElement[bool]]:
    """Return the conditions on when it was put in, started and ended, how long it took, how often, and its error."""
    found: list[ColumnElement[bool]] = []
    for name, column in TIMES.items():
        if (since := getattr(wanted, f"{name}_from")) is not None:
            found.append(tasks.c[column] >= since)
        if (until := getattr(wanted, f"{name}_until")) is not None:
            found.append(tasks.c[column] < until)
    if wanted.error is not None:
        found.append(_has_error(wanted.error))
    if wanted.least_tries is not None:
        found.append(tasks.c.run_id + 1 >= wanted.least_tries)
    if wanted.most_tries is not None:
        found.append(tasks.c.run_id + 1 <= wanted.most_tries)
    took: ColumnElement[Any] = literal_column("(tasks.completed_at - tasks.started_at)")
    if wanted.least_seconds is not None:
        found.append(took >= _span(wanted.least_seconds, dialect))
    if wanted.most_seconds is not None:
        found.append(took <= _span(wanted.most_seconds, dialect))
    return found


TIMES = {"created": "created_at", "started": "started_at", "ended": "completed_at"}
"""The columns of the times that a filter may bound."""


def _span(seconds: float, dialect: str) -> ColumnElement[Any]:
    """Return a duration as the difference of two instants is one."""
    span = timedelta(seconds=seconds)
    return literal(span, Interval()) if dialect == "postgresql" else literal(span // timedelta(microseconds=1), BigKey)


def _has_error(wanted: str) -> ColumnElement[bool]:
    begins = func.substr(tasks.c.error, 1, len(wanted) + 1) == f"{wanted}:"
    return or_(tasks.c.error == wanted, begins, tasks.c.reason == wanted)


def _of_group(failure: str) -> ColumnElement[bool]:
    """Return the condition that a task's last run is of a group of failures."""
    of_group = select(failures.c.task_seq).where(failures.c.key == read_key(failure))
    latest = of_group.order_by(failures.c.at.desc()).limit(MOST_OF_GROUP).subquery()
    its_own = of_group.where(failures.c.task_seq == tasks.c.seq, failures.c.run_id == tasks.c.run_id)
    return and_(tasks.c.seq.in_(select(latest.c.task_seq)), its_own.correlate(tasks).exists())


async def _unlike(connection: AsyncConnection, wanted: TaskFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of what a task must not be; they offer no index."""
    found: list[ColumnElement[bool]] = []
    if wanted.not_room:
        found.append(tasks.c.room.not_in(wanted.not_room))
    if wanted.not_job:
        found.append(tasks.c.job_name.not_in(wanted.not_job))
    if wanted.not_target:
        found.append(or_(tasks.c.target.is_(None), tasks.c.target.not_in(wanted.not_target)))
    if wanted.not_worker:
        others = tasks.c.worker_id.not_in(await worker_ids(connection, wanted.not_worker))
        found.append(or_(tasks.c.worker_id.is_(None), others))
    found += [~func.coalesce(_has_error(error), False) for error in wanted.not_error or ()]
    dialect = connection.dialect.name
    found += [~tagged.has_one_of(keys_wanted(tag), dialect, rare=False) for tag in wanted.not_tag or ()]
    return found


def among_leased(conditions: Sequence[ColumnElement[bool]]) -> list[ColumnElement[bool]]:
    """Return the same conditions for a list of leased or few tasks alone, without the indexes by job and by room.

    Those lead through the whole history of a queue; the leased tasks are few, and have an index of their own.
    """
    return [_without_index(one) for one in conditions]


def _without_index(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    if isinstance(condition, BinaryExpression) and condition.operator is eq:
        if condition.left is tasks.c.job_num:
            return tasks.c.job_num + 0 == condition.right
        if condition.left is tasks.c.room:
            return tasks.c.room.concat("") == condition.right
    return condition


def ids_from(prefix: str) -> tuple[str, str]:
    """Return the first and the last of the ids that begin with `prefix`: a range, for which the index serves."""
    digits = prefix.replace("-", "")
    return str(UUID(digits.ljust(32, "0"))), str(UUID(digits.ljust(32, "f")))


def _holding(text: str) -> ColumnElement[bool]:
    def has(column: Column[Any]) -> ColumnElement[bool]:
        return cast(column, String).icontains(text, autoescape=True)

    # Base64 would hold many a short text by chance.
    is_sealed = cast(tasks.c.payload, String).startswith(f'{{"{MARK}"')
    readable = and_(or_(has(tasks.c.payload), has(tasks.c.error)), ~is_sealed)
    return or_(has(tasks.c.id), has(tasks.c.job_name), readable)


async def total(connection: AsyncConnection, wanted: TaskFilter) -> tuple[int, bool]:
    """Return how many tasks match, and whether counting stopped at `COUNT_CAP`.

    By job and status alone the kept counts know; anything else is counted.
    """
    if all(getattr(wanted, name) is None for name in _UNCOUNTED) and _counts_are_its_own(wanted):
        return await _kept(connection, wanted), False
    limited = select(tasks.c.seq).where(*await conditions(connection, wanted)).limit(COUNT_CAP + 1).subquery()
    found = (await connection.execute(select(func.count()).select_from(limited))).scalar_one()
    return min(found, COUNT_CAP), found > COUNT_CAP


def _counts_are_its_own(wanted: TaskFilter) -> bool:
    """Return whether the kept counts of the filter's jobs count no task that is not seen.

    A plain room's job has tasks of that room alone, a shared room's job those of every room.
    """
    if (visibility := visibility_of(wanted)) is None:
        return True
    room = (wanted.job or "").partition(":")[0]
    return room not in SHARED_ROOMS and visibility.admits(room)


async def _kept(connection: AsyncConnection, wanted: TaskFilter) -> int:
    if wanted.job is None:
        by_status = await counts.totals(connection)
    else:
        num = await job_num(connection, wanted.job)
        by_status = (await counts.by_job(connection, [num])).get(num, {})
    return sum(n for status, n in by_status.items() if wanted.status is None or Status(status) in wanted.status)
