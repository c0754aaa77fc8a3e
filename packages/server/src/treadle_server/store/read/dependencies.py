"""What a task depends on: the tasks by name, and their results as a claim carries them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import String, bindparam, cast, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.dependencies import ResultPlace
from treadle_server.store.bound_lists import is_among, is_same
from treadle_server.store.tables import TO_TELL, task_dependencies, tasks

_c = tasks.c
_e = task_dependencies.c

_NEWS = select(_c.seq).where(text(TO_TELL)).limit(1)


async def has_news(connection: AsyncConnection) -> bool:
    """Return whether some task's state has yet to be passed on to the tasks that depend on it."""
    return (await connection.execute(_NEWS)).first() is not None


@dataclass(frozen=True, slots=True)
class Depended:
    """A task that another one depends on."""

    id: TaskId
    status: Status
    places: list[ResultPlace]
    error: str | None = None
    result: str | None = None
    """JSON text; None when it was not read."""


_OF_TASKS = (
    select(_e.task_seq, _c.id, _c.status, _e.places)
    .join_from(task_dependencies, tasks, is_same(_c.seq, _e.needs_seq))
    .where(is_among(_e.task_seq, "seqs"))
    .order_by(_e.task_seq, _e.needs_seq)
)
_SIZES = _OF_TASKS.add_columns(
    func.coalesce(func.length(cast(_c.result, String)), 0) + func.coalesce(func.length(_c.error), 0)
)
_RESULTS = _OF_TASKS.add_columns(_c.error, _c.result)


async def depended(
    connection: AsyncConnection, seqs: Collection[int], *, most_bytes: int
) -> dict[int, tuple[list[Depended], bool]]:
    """Return by task the tasks that it depends on, and whether their results and errors were left out.

    They are left out when their texts have more than `most_bytes` in all, counted once for each place where they are
    used. It takes two statements for any number of tasks: one for each was most of the cost of a task of a wide flow.
    """
    found: dict[int, tuple[list[Depended], bool]] = {seq: ([], False) for seq in seqs}
    sizes = (await connection.execute(_SIZES, {"seqs": seqs})).all()
    for seq, rows in groupby(sizes, key=itemgetter(0)):
        total, listed = 0, []
        for row in rows:
            listed.append(_depended(*row[1:4]))
            total += row[-1] * len(listed[-1].places)
        found[seq] = (listed, total > most_bytes)
    small = [seq for seq, (listed, is_left_out) in found.items() if listed and not is_left_out]
    if small:
        whole = await connection.execute(_RESULTS, {"seqs": small})
        for seq, of_one in groupby(whole.all(), key=itemgetter(0)):
            found[seq] = ([_depended(*row[1:]) for row in of_one], False)
    return found


def _depended(id_: Any, status: str, places: str, error: str | None = None, result: str | None = None) -> Depended:
    listed = [(name, place) for name, place in orjson.loads(places)]
    return Depended(TaskId(str(id_)), Status(status), listed, error, result)


async def waits_for(connection: AsyncConnection, task_id: TaskId, needs_id: TaskId) -> bool:
    """Return whether the first task depends on the second, met or not."""
    own, other = (select(_c.seq).where(_c.id == one).scalar_subquery() for one in (task_id, needs_id))
    statement = select(_e.met).where(_e.task_seq == own, _e.needs_seq == other)
    return (await connection.execute(statement)).first() is not None


_NAMED = (
    select(_c.id, _e.places)
    .join_from(task_dependencies, tasks, is_same(_c.seq, _e.needs_seq))
    .where(_e.task_seq == bindparam("seq"))
    .order_by(_e.needs_seq)
    .limit(bindparam("most"))
)


MOST_NAMED = 1000
"""Most dependencies that are named in a single task's view, and most places of theirs."""

_OF_ONE = select(func.count()).where(_e.task_seq == bindparam("seq"))


async def named(connection: AsyncConnection, seq: int) -> tuple[dict[str, str | list[str]], int | None]:
    """Return the ids of the tasks that a task depends on, by name, and how many they are if some are left out.

    The first `MOST_NAMED` of them are named, at no more than that many places in all.
    """
    rows = (await connection.execute(_NAMED, {"seq": seq, "most": MOST_NAMED + 1})).all()
    found, left = [], MOST_NAMED
    for id_, places in rows[:MOST_NAMED]:
        listed = orjson.loads(places)
        found.append((listed[: max(0, left)], str(id_)))
        left -= len(listed)
    is_whole = len(rows) <= MOST_NAMED and left >= 0
    return by_name(found), None if is_whole else (await connection.execute(_OF_ONE, {"seq": seq})).scalar_one()


def by_name(found: Sequence[tuple[Sequence[Any], Any]]) -> dict[str, Any]:
    """Return things by the names of their places: a single one, or a list in the order of the places."""
    lists: dict[str, list[tuple[int, Any]]] = {}
    single: dict[str, Any] = {}
    for places, thing in found:
        for name, place in places:
            if place is None:
                single[name] = thing
            else:
                lists.setdefault(name, []).append((place, thing))
    return single | {
        name: [thing for _, thing in sorted(things, key=lambda one: one[0])] for name, things in lists.items()
    }
