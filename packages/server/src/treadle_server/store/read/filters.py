"""A `TaskFilter` in SQL, and how many tasks match it; `matching.py` does the same in memory."""

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
from treadle_server.domain.failures import parse_key
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
"""The parts of a filter that the kept counts don't cover."""

COUNT_CAP = 10_000
"""Where counting stops for filters that the kept counts don't cover."""

MOST_OF_GROUP = 100_000
"""How many of a group's latest failed runs are searched for its tasks."""

NO_JOB = -1
"""Stands for a job that does not exist, so that nothing matches."""


class SeenFilter(TaskFilter):
    """A filter that is narrowed to the rooms that the user can read."""

    _visibility: Visibility = PrivateAttr(default_factory=Visibility)


def seen(wanted: TaskFilter, visibility: Visibility | None) -> TaskFilter:
    """Return the filter narrowed to the rooms of `visibility`; None means all rooms."""
    if visibility is None:
        return wanted
    narrowed = SeenFilter.model_construct(wanted.model_fields_set, **dict(wanted))
    narrowed._visibility = visibility  # noqa: SLF001 - not a field, so that no client can set it
    return narrowed


def visibility_of(wanted: TaskFilter) -> Visibility | None:
    """Return the rooms to which a filter is narrowed; None when it is not."""
    return wanted._visibility if isinstance(wanted, SeenFilter) else None  # noqa: SLF001 - as above


async def job_num(connection: AsyncConnection, full_name: str) -> int:
    """Return the number of the job, or `NO_JOB`. Deleted jobs are found too, because they still have tasks."""
    try:
        room, category, name = parse_job_name(full_name)
    except InvalidJobName:
        return NO_JOB
    statement = select(jobs.c.num).where(jobs.c.room == room, jobs.c.category == category, jobs.c.name == name)
    found = (await connection.execute(statement)).scalar()
    return NO_JOB if found is None else found


class Where(list[ColumnElement[bool]]):
    """Conditions that a task must all satisfy, and how to find such tasks."""

    is_narrow: bool = False
    """Whether one of them names few tasks by number. The others then allow no index, by which more would be read."""
    is_short: bool = False
    """Whether all candidates are read at once: the index of leased tasks has few, or the conditions are narrow."""
    along: Sequence[ColumnElement[bool]] = ()
    """Conditions for entering an index that is ordered by the tasks' numbers: some of these, and some that follow from
    them."""
    of_job: Sequence[ColumnElement[bool]] = ()
    """The condition on the job, if there is one."""

    of_status: Sequence[ColumnElement[bool]] = ()
    """The conditions on the status, as the filter has them."""

    @property
    def beside_line(self) -> list[ColumnElement[bool]]:
        """Return the conditions other than those on the job and the status."""
        known = (*self.of_job, *self.of_status)
        return [one for one in self if not any(one is other for other in known)]

    @property
    def beside_index(self) -> list[ColumnElement[bool]]:
        """Return the conditions that are not in `along`, to be checked for each task along the index."""
        return [one for one in self if not any(one is other for other in self.along)]

    @property
    def is_listed(self) -> bool:
        """Return whether the matching tasks are looked for along the list of a job or a room."""
        return not self.is_short and walks.is_listed(self.along)

    def walk(self, *, up: bool = False, beyond: Sequence[ColumnElement[bool]] = ()) -> Walk:
        """Return the walk through candidates by number, newest first, or oldest first with `up`."""
        by = (tasks.c.seq.asc() if up else tasks.c.seq.desc(),)
        along = (*self.along, *beyond)
        return (ListWalk if self.is_listed else Walk)(along, by, walks.LOOKED_THROUGH)

    def first(self, limit: int, order: Sequence[ColumnElement[Any]]) -> Sequence[ColumnElement[bool]]:
        """Return conditions that the first `limit` matching tasks in this order satisfy, and only matching ones."""
        if not self.is_listed:
            return self
        every = replace(self.walk(), most=walks.UNBOUNDED)
        return [is_found_by(tasks.c.seq, every.ordered(Asked(self.beside_index), order, limit=limit, offset=0))]

    def and_status(self, wanted: Collection[Status]) -> "Where":
        """Return these conditions with one that a task is in one of the statuses."""
        return self._with(*self, *in_statuses(sorted(wanted), plain=self.is_narrow))

    def in_segment(self, wanted: Collection[Status]) -> "Where":
        """Return these conditions with one that a task is in one of a segment's statuses, by the index for those."""
        own = in_statuses(sorted(wanted), plain=False)
        found = self._with(*self, *own)
        if LEASED.issuperset(wanted):
            found.is_short = True
        elif len(own) == 1 and (self.of_job or wanted == {Status.BLOCKED}) and _HELD.issuperset(wanted):
            found.along = [*self.of_job, *own]
        return found

    def narrowed(self, named: ColumnElement[bool]) -> "Where":
        """Return these conditions for the few tasks that `named` selects by number."""
        found = self._with(named, *self)
        found.is_narrow = found.is_short = True
        return found

    def _with(self, *conditions: ColumnElement[bool]) -> "Where":
        found = copy(self)
        found[:] = conditions
        return found


_HELD = frozenset({Status.FAILED, Status.PAUSED, Status.CANCELLED, Status.SCHEDULED, Status.BLOCKED})
"""Statuses that have an index by job, status and number."""


async def conditions(connection: AsyncConnection, wanted: TaskFilter, *, names_few: bool = True) -> Where:
    """Return the conditions for a filter.

    With `names_few`, tasks in rare statuses are found by their numbers.
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
    """Return the conditions that may each name few tasks by number; the first that does is used to find the tasks."""
    found = Where()

    async def add(those: Select[Any], asked_of_each: ColumnElement[bool]) -> None:
        # One rare condition finds the tasks; the others are then looked up for each of them.
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
    """Return bounds on the numbers of tasks that a filter's times admit, where there are too many to check each.

    A task that started or ended before an instant was also submitted before it.
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
    """Return the ids of the workers with these names or ids."""
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
"""The parts of a filter that are bounds: (part, comparison, bounded value). `_BOUNDED` has the values in SQL, and that
of `matching.py` in memory."""


def bounds_of(wanted: TaskFilter) -> Iterator[tuple[Callable[[Any, Any], Any], str, Any]]:
    """Yield the bounds of a filter: (comparison, name of the bounded value, bound)."""
    for part, compare, of in _BOUNDS:
        if (value := getattr(wanted, part)) is not None:
            yield compare, of, timedelta(seconds=value) if of == "took" else value


_BOUNDED: dict[str, ColumnElement[Any]] = {
    **{column: tasks.c[column] for column in TIMES.values()},
    # 64 bits, like the filter's number, which PostgreSQL would not compare with an integer column.
    "tries": cast(tasks.c.run_id, BigKey) + 1,
    "took": literal_column("(tasks.completed_at - tasks.started_at)"),
}


def _of_its_time(wanted: TaskFilter, dialect: str) -> list[ColumnElement[bool]]:
    """Return the conditions on a task's times, duration, tries and error."""
    found = [
        compare(_BOUNDED[of], _span(value, dialect) if of == "took" else value)
        for compare, of, value in bounds_of(wanted)
    ]
    return found if wanted.error is None else [*found, _has_error(wanted.error)]


def _span(span: timedelta, dialect: str) -> ColumnElement[Any]:
    """Return a duration in the type of a difference of two instants."""
    return literal(span, Interval()) if dialect == "postgresql" else literal(span // timedelta(microseconds=1), BigKey)


def _has_error(wanted: str) -> ColumnElement[bool]:
    begins = func.substr(tasks.c.error, 1, len(wanted) + 1) == f"{wanted}:"
    return or_(tasks.c.error == wanted, begins, tasks.c.reason == wanted)


def _of_group(failure: str) -> list[ColumnElement[bool]]:
    """Return the conditions that a task's last run belongs to a group of failures."""
    of_group = select(failures.c.task_seq).where(failures.c.key == parse_key(failure))
    latest = of_group.order_by(failures.c.at.desc()).limit(MOST_OF_GROUP).subquery()
    its_own = of_group.where(failures.c.task_seq == tasks.c.seq, failures.c.run_id == tasks.c.run_id)
    return [is_found_by(tasks.c.seq, select(latest.c.task_seq)), its_own.correlate(tasks).exists()]


UNLIKE = {"not_room": "room", "not_job": "job_name", "not_target": "target", "not_worker": "worker_id"}
"""The columns that these parts of a filter exclude values of."""


async def _unlike(connection: AsyncConnection, wanted: TaskFilter) -> list[ColumnElement[bool]]:
    """Return the conditions on what a task must not have; they allow no index."""
    found: list[ColumnElement[bool]] = []
    for name, column in UNLIKE.items():
        if unwanted := getattr(wanted, name):
            values = await worker_ids(connection, unwanted) if name == "not_worker" else unwanted
            found.append(or_(tasks.c[column].is_(None), tasks.c[column].not_in(values)))
    found += [~func.coalesce(_has_error(error), False) for error in wanted.not_error or ()]
    found += [~few.has_one_of(keys_wanted(tag)) for tag in wanted.not_tag or ()]
    return found


def in_statuses(wanted: Sequence[Status], *, plain: bool) -> list[ColumnElement[bool]]:
    """Return the conditions that a task is in one of the statuses; `plain` ones allow no index."""
    if plain:
        return [tasks.c.status.concat("").in_([status.value for status in wanted])]
    conditions = [status_in(*wanted)]
    if set(wanted) < LEASED:
        # The index of leased tasks is used only when the query repeats its condition literally.
        conditions.append(status_in(*LEASED))
    return conditions


def _begins(column: Column[Any], beginning: str) -> ColumnElement[bool]:
    first, last = ids_from(beginning)
    return column == first if first == last else column.between(first, last)


def ids_from(prefix: str) -> tuple[str, str]:
    """Return the first and last possible ids that begin with `prefix`: a range, so that an index can be used."""
    digits = prefix.replace("-", "")
    return str(UUID(digits.ljust(32, "0"))), str(UUID(digits.ljust(32, "f")))


def _holding(text: str) -> ColumnElement[bool]:
    def has(column: Column[Any]) -> ColumnElement[bool]:
        return cast(column, String).icontains(text, autoescape=True)

    # In encrypted payloads, which are Base64, many a short text would be found by chance.
    is_sealed = cast(task_specs.c.payload, String).startswith(f'{{"{MARK}"')
    found = and_(or_(has(task_specs.c.payload), has(tasks.c.error)), ~is_sealed)
    # A subquery for a value is never made a join, as EXISTS is.
    readable = select(found).where(task_specs.c.seq == tasks.c.seq).correlate(tasks).scalar_subquery()
    return or_(has(tasks.c.id), has(tasks.c.job_name), readable)


async def total(connection: AsyncConnection, wanted: TaskFilter) -> tuple[int, bool]:
    """Return how many tasks match, and whether there may be more: counting stops at `COUNT_CAP`, or at the walk's end.

    A filter on job and status alone is answered from the kept counts; anything else is counted among the tasks
    that a list looks through.
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
    """Return whether the kept counts of the filter's jobs cover only tasks that the user can see.

    A job of a shared room has tasks of every room; other jobs have tasks of their own room only.
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
