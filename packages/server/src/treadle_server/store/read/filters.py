"""What a `TaskFilter` means in SQL, and when its count is known without counting; `matching.py` says it in memory."""

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from operator import ge, le, lt
from typing import Any
from uuid import UUID

from pydantic import PrivateAttr
from sqlalchemy import (
    Column,
    ColumnElement,
    Interval,
    Select,
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

from treadle.wire.filters import TIMES, TaskFilter
from treadle.wire.ids import is_uuid
from treadle.wire.names import SHARED_ROOMS, InvalidJobName, parse_job_name
from treadle.wire.sealed import MARK
from treadle.wire.status import LEASED, Status
from treadle_server.domain.failures import read as read_key
from treadle_server.domain.visibility import Visibility
from treadle_server.store.arrivals import first_since
from treadle_server.store.bound_lists import is_found_by
from treadle_server.store.read import counts, few, walks
from treadle_server.store.read.visibility import within
from treadle_server.store.read.walks import Asked, ListWalk, Walk
from treadle_server.store.tables import failures, jobs, status_in, task_specs, tasks, workers
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
    is_short: bool = False
    """Whether all that an index of their own has is read: that of what is leased, or as they are narrow."""
    along: Sequence[ColumnElement[bool]] = ()
    """By what an index is entered that has tasks by their numbers: some of them, and what follows from others."""
    of_job: Sequence[ColumnElement[bool]] = ()
    """The one that they are of a job, if it is among them."""

    of_status: Sequence[ColumnElement[bool]] = ()
    """Those that they are in one of some statuses, as they were asked for."""

    @property
    def beside_line(self) -> list[ColumnElement[bool]]:
        """Return those that say more of a task in line than of which job it is, and that it is pending."""
        known = (*self.of_job, *self.of_status)
        return [one for one in self if not any(one is other for other in known)]

    @property
    def beside_index(self) -> list[ColumnElement[bool]]:
        """Return those that are not among `along`: what is asked of each task along the index."""
        return [one for one in self if not any(one is other for other in self.along)]

    @property
    def is_listed(self) -> bool:
        """Return whether they name tasks that stand in the list of a job or a room, which is looked through."""
        return not self.is_short and walks.is_listed(self.along)

    def walk(self, *, up: bool = False, beyond: Sequence[ColumnElement[bool]] = ()) -> Walk:
        """Return the tasks to look through by their numbers, the newest first unless it goes `up`."""
        by = (tasks.c.seq.asc() if up else tasks.c.seq.desc(),)
        along = (*self.along, *beyond)
        return (ListWalk if self.is_listed else Walk)(along, by, walks.LOOKED_THROUGH)

    def first(self, limit: int, order: Sequence[ColumnElement[Any]]) -> Sequence[ColumnElement[bool]]:
        """Return the conditions that a task is one of the first `limit` in an order, or satisfies these."""
        if not self.is_listed:
            return self
        every = replace(self.walk(), most=walks.UNBOUNDED)
        return [is_found_by(tasks.c.seq, every.ordered(Asked(self.beside_index), order, limit=limit, offset=0))]

    def and_status(self, wanted: Collection[Status]) -> "Where":
        """Return these and that a task is in one of the statuses."""
        return self._with(*self, *in_statuses(sorted(wanted), plain=self.is_narrow))

    def in_segment(self, wanted: Collection[Status]) -> "Where":
        """Return these and that a task is in one of a segment's statuses, by the index that it has for them."""
        own = in_statuses(sorted(wanted), plain=False)
        found = self._with(*self, *own)
        if LEASED.issuperset(wanted):
            found.is_short = True
        elif len(own) == 1 and (self.of_job or wanted == {Status.BLOCKED}) and _HELD.issuperset(wanted):
            found.along = [*self.of_job, *own]
        return found

    def narrowed(self, named: ColumnElement[bool]) -> "Where":
        """Return these of tasks that are `named` by their numbers."""
        found = self._with(named, *self)
        found.is_narrow = found.is_short = True
        return found

    def _with(self, *conditions: ColumnElement[bool]) -> "Where":
        found = copy(self)
        found[:] = conditions
        return found


_HELD = frozenset({Status.FAILED, Status.PAUSED, Status.CANCELLED, Status.SCHEDULED, Status.BLOCKED})
"""Statuses of which each job's tasks have an index in their order."""


async def conditions(connection: AsyncConnection, wanted: TaskFilter, *, names_few: bool = True) -> Where:
    """Return the conditions that a task must satisfy, all of them.

    With `names_few` those in statuses that few have are named by their numbers.
    """
    found = await _narrow(connection, wanted)
    num = None if wanted.job is None else await job_num(connection, wanted.job)
    is_leased = wanted.status is not None and LEASED.issuperset(wanted.status)
    if names_few and not found.is_narrow and wanted.status is not None and not is_leased:
        named = await few.few(connection, wanted.status, num)
        if named is not None:
            found.append(named)
            found.is_narrow = True
    visibility = visibility_of(wanted)
    if wanted.room is not None:
        found.append(tasks.c.room == wanted.room)
        found.along = found[-1:]
    if visibility is not None and (wanted.room is None or not visibility.admits(wanted.room)):
        found.append(within(visibility, tasks.c.room))
        if len(visibility.names) == 1 and not visibility.prefixes:
            found.along = found[-1:]
    if num is not None:
        found.append(tasks.c.job_num == num)
        found.along = found.of_job = found[-1:]
    if (wished := wanted.status) is not None:
        found.of_status = in_statuses(wished, plain=found.is_narrow)
        found += found.of_status
        if len(wished) == 1 and (found.of_job or wished[0] is Status.BLOCKED) and wished[0] in _HELD:
            found.along = [*found.of_job, found[-1]]
    if wanted.target is not None:
        found.append(tasks.c.target == wanted.target)
    if wanted.worker is not None:
        found.append(tasks.c.worker_id.in_(await worker_ids(connection, [wanted.worker])))
    if wanted.text is not None:
        found.append(_holding(wanted.text))
    found += _of_its_time(wanted, connection.dialect.name)
    found += await _unlike(connection, wanted)
    found.is_short = found.is_narrow or is_leased
    if not found.is_short:
        found.along = [*found.along, *await _while_they_came(connection, wanted, found)]
    return found


async def _narrow(connection: AsyncConnection, wanted: TaskFilter) -> Where:
    """Return the conditions of which each may name few tasks by their numbers; the first that does is read along."""
    found = Where()

    async def add(those: Select[Any], asked_of_each: ColumnElement[bool]) -> None:
        # By one rare tag all is read; whether what was read has the others is looked up.
        is_rare = not found.is_narrow and await few.are_rare(connection, those)
        found.append(is_found_by(tasks.c.seq, those) if is_rare else asked_of_each)
        found.is_narrow = found.is_narrow or is_rare

    for keys in map(keys_wanted, wanted.tag or ()):
        await add(few.tagged(keys), few.has_one_of(keys))
    if wanted.failure is not None:
        found += _of_group(wanted.failure)
        found.is_narrow = True
    for column, beginning in ((tasks.c.flow_id, wanted.flow), (tasks.c.id, wanted.id)):
        if beginning is not None:
            begins = _begins(column, beginning)
            await add(select(tasks.c.seq).where(begins), begins)
    return found


async def _while_they_came(connection: AsyncConnection, wanted: TaskFilter, found: Where) -> list[ColumnElement[bool]]:
    """Return between which numbers tasks came in that a filter's times admit, where there are too many to look at all.

    What started or ended before an instant came in before it.
    """
    since = wanted.created_from
    until = min(filter(None, (wanted.created_until, wanted.started_until, wanted.ended_until)), default=None)
    if (since or until) is None or await found.walk().end(connection) is None:
        return []
    bounds: list[ColumnElement[bool]] = []
    if since is not None:
        bounds.append(tasks.c.seq >= await first_since(connection, since - walks.CLOCKS_APART))
    if until is not None:
        bounds.append(tasks.c.seq < await first_since(connection, until + walks.CLOCKS_APART))
    return bounds


async def worker_ids(connection: AsyncConnection, called: Sequence[str]) -> list[str]:
    """Return the ids of the workers that are called so, by name or by id."""
    found = [word for word in called if is_uuid(word)]
    if names := [word for word in called if not is_uuid(word)]:
        found += (await connection.execute(select(workers.c.id).where(workers.c.name.in_(names)))).scalars()
    return found


_BOUNDS: tuple[tuple[str, Callable[[Any, Any], Any], str], ...] = (
    *((f"{name}_from", ge, column) for name, column in TIMES.items()),
    *((f"{name}_until", lt, column) for name, column in TIMES.items()),
    *(("least_tries", ge, "tries"), ("most_tries", le, "tries")),
    *(("least_seconds", ge, "took"), ("most_seconds", le, "took")),
)
"""The parts of a filter that bound something, how, and what; each in SQL in `_BOUNDED`, and in memory in that of
`matching.py`."""


def bounds_of(wanted: TaskFilter) -> Iterator[tuple[Callable[[Any, Any], Any], str, Any]]:
    """Yield how a filter bounds what of a task, and by which value."""
    for part, compare, of in _BOUNDS:
        if (value := getattr(wanted, part)) is not None:
            yield compare, of, timedelta(seconds=value) if of == "took" else value


_BOUNDED: dict[str, ColumnElement[Any]] = {
    **{column: tasks.c[column] for column in TIMES.values()},
    # As wide as what a filter may name, which PostgreSQL would not compare with a run's number.
    "tries": cast(tasks.c.run_id, BigKey) + 1,
    "took": literal_column("(tasks.completed_at - tasks.started_at)"),
}


def _of_its_time(wanted: TaskFilter, dialect: str) -> list[ColumnElement[bool]]:
    """Return the conditions on when it was put in, started and ended, how long it took, how often, and its error."""
    found = [
        compare(_BOUNDED[of], _span(value, dialect) if of == "took" else value)
        for compare, of, value in bounds_of(wanted)
    ]
    return found if wanted.error is None else [*found, _has_error(wanted.error)]


def _span(span: timedelta, dialect: str) -> ColumnElement[Any]:
    """Return a duration as the difference of two instants is one."""
    return literal(span, Interval()) if dialect == "postgresql" else literal(span // timedelta(microseconds=1), BigKey)


def _has_error(wanted: str) -> ColumnElement[bool]:
    begins = func.substr(tasks.c.error, 1, len(wanted) + 1) == f"{wanted}:"
    return or_(tasks.c.error == wanted, begins, tasks.c.reason == wanted)


def _of_group(failure: str) -> list[ColumnElement[bool]]:
    """Return the conditions that a task's last run is of a group of failures."""
    of_group = select(failures.c.task_seq).where(failures.c.key == read_key(failure))
    latest = of_group.order_by(failures.c.at.desc()).limit(MOST_OF_GROUP).subquery()
    its_own = of_group.where(failures.c.task_seq == tasks.c.seq, failures.c.run_id == tasks.c.run_id)
    return [is_found_by(tasks.c.seq, select(latest.c.task_seq)), its_own.correlate(tasks).exists()]


UNLIKE = {"not_room": "room", "not_job": "job_name", "not_target": "target", "not_worker": "worker_id"}
"""The columns that must have none of the values that these parts of a filter say."""


async def _unlike(connection: AsyncConnection, wanted: TaskFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of what a task must not be; they offer no index."""
    found: list[ColumnElement[bool]] = []
    for name, column in UNLIKE.items():
        if unwanted := getattr(wanted, name):
            values = await worker_ids(connection, unwanted) if name == "not_worker" else unwanted
            found.append(or_(tasks.c[column].is_(None), tasks.c[column].not_in(values)))
    found += [~func.coalesce(_has_error(error), False) for error in wanted.not_error or ()]
    found += [~few.has_one_of(keys_wanted(tag)) for tag in wanted.not_tag or ()]
    return found


def in_statuses(wanted: Sequence[Status], *, plain: bool) -> list[ColumnElement[bool]]:
    """Return the conditions that a task is in one of the statuses; those that are `plain` offer no index."""
    if not wanted:
        return [literal_column("1 = 0")]
    if plain:
        return [tasks.c.status.concat("").in_([status.value for status in wanted])]
    conditions = [status_in(*wanted)]
    if set(wanted) < LEASED:
        # The index of leased tasks is used only when its own condition stands in the query word by word.
        conditions.append(status_in(*LEASED))
    return conditions


def _begins(column: Column[Any], beginning: str) -> ColumnElement[bool]:
    first, last = ids_from(beginning)
    return column == first if first == last else column.between(first, last)


def ids_from(prefix: str) -> tuple[str, str]:
    """Return the first and the last of the ids that begin with `prefix`: a range, for which the index serves."""
    digits = prefix.replace("-", "")
    return str(UUID(digits.ljust(32, "0"))), str(UUID(digits.ljust(32, "f")))


def _holding(text: str) -> ColumnElement[bool]:
    def has(column: Column[Any]) -> ColumnElement[bool]:
        return cast(column, String).icontains(text, autoescape=True)

    # Base64 would hold many a short text by chance.
    is_sealed = cast(task_specs.c.payload, String).startswith(f'{{"{MARK}"')
    found = and_(or_(has(task_specs.c.payload), has(tasks.c.error)), ~is_sealed)
    # A subquery for a value is never made a join, as EXISTS is.
    readable = select(found).where(task_specs.c.seq == tasks.c.seq).correlate(tasks).scalar_subquery()
    return or_(has(tasks.c.id), has(tasks.c.job_name), readable)


async def total(connection: AsyncConnection, wanted: TaskFilter) -> tuple[int, bool]:
    """Return how many tasks match, and whether there may be more: counting stopped at `COUNT_CAP`, or with the walk.

    By job and status alone the kept counts know; anything else is counted, among as many as are looked through.
    """
    if all(getattr(wanted, name) is None for name in _UNCOUNTED) and _counts_are_its_own(wanted):
        return await _kept(connection, wanted), False
    where = await conditions(connection, wanted)
    if where.is_short:
        found = await walks.count(connection, select(tasks.c.seq).where(*where).limit(COUNT_CAP + 1))
        return min(found, COUNT_CAP), found > COUNT_CAP
    walk = where.walk()
    found = await walks.count(connection, walk.those(Asked(where.beside_index), limit=COUNT_CAP + 1))
    return min(found, COUNT_CAP), found > COUNT_CAP or await walk.end(connection) is not None


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
