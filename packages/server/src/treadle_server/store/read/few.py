"""Tasks in statuses that few have: named by the indexes of what is open or held, where the kept counts say so.

A list of what failed need not look through what was completed.
"""

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Column, ColumnElement, any_, column, false, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import LEASED, Status
from treadle_server.store.read import counts
from treadle_server.store.read.walks import numbered
from treadle_server.store.tables import status_in, tasks

FEW = 5_000
"""Tasks that are read for a page of them at most, whatever its order."""


async def few(
    connection: AsyncConnection, statuses: Collection[Status], job_num: int | None
) -> ColumnElement[bool] | None:
    """Return the condition that a task is one of those in the statuses, of the job or of all; None when they are many.

    Those that are completed have no index.
    """
    if Status.COMPLETED in statuses:
        return None
    found = await counts.by_lane(connection, statuses, job_num)
    if sum(one.n for one in found) > FEW:
        return None
    dialect = connection.dialect.name
    parts = []
    if pending := {one.lane for one in found if one.status == Status.PENDING}:
        parts.append([_among(dialect, tasks.c.lane, pending), status_in(Status.PENDING)])
    if leased := {Status(one.status) for one in found} & LEASED:
        # The index of leased tasks is used only when its own condition stands in the query word by word.
        parts.append([status_in(*LEASED), status_in(*leased)])
    held: dict[Status, set[int]] = defaultdict(set)
    for one in found:
        if (status := Status(one.status)) not in {Status.PENDING, *LEASED}:
            held[status].add(one.job_num)
    parts += [[_among(dialect, tasks.c.job_num, nums), status_in(status)] for status, nums in held.items()]
    if not parts:
        return false()
    return numbered(union_all(*(select(tasks.c.seq).where(*part) for part in parts)), dialect)


def _among(dialect: str, expression: Column[Any], values: Collection[int]) -> ColumnElement[bool]:
    if dialect == "postgresql":
        return expression == any_(literal(sorted(values), ARRAY(BigInteger)))
    return expression.in_(select(column("value")).select_from(func.json_each(json.dumps(sorted(values)))))
