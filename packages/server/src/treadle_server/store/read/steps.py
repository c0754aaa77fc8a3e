"""The steps that a task keeps, as others see them."""

from collections.abc import Sequence

from sqlalchemy import Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.steps import STEP_FIELDS, Step
from treadle_server.store.tables import task_steps

MOST_TEXT = 4_000_000
"""Characters of the results that are read at once, unless the first has more."""

_c = task_steps.c


async def of_task(connection: AsyncConnection, task_seq: int, *, first: int, most: int) -> list[Step]:
    """Return up to `most` steps from number `first` on, fewer when their results are large."""
    among = (_c.task_seq == task_seq, _c.number >= first)
    sizes = select(func.coalesce(func.length(cast(_c.result, Text)), 0)).where(*among).order_by(_c.number).limit(most)
    fitting = _fitting(list((await connection.execute(sizes)).scalars()))
    columns = [_c[name] for name in STEP_FIELDS]
    rows = await connection.execute(select(*columns).where(*among).order_by(_c.number).limit(fitting))
    return [Step(*row) for row in rows]


async def outline(connection: AsyncConnection, task_seq: int) -> list[Step]:
    """Return all steps without their results."""
    columns = [_c[name] for name in STEP_FIELDS if name != "result"]
    rows = await connection.execute(select(*columns).where(_c.task_seq == task_seq).order_by(_c.number))
    return [Step(**row, result=None) for row in rows.mappings()]


def _fitting(sizes: Sequence[int]) -> int:
    """Return how many of the first results fit, one of them in any case."""
    total = 0
    for i, size in enumerate(sizes):
        total += size
        if i and total > MOST_TEXT:
            return i
    return len(sizes)
