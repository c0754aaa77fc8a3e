"""What the tests of kill -9 run as processes of their own: a shop that writes orders, and a relay that is doomed.

python -m tests.worker.outbox.processes shop URL COUNT     orders 1 to COUNT, some in transactions that roll back
python -m tests.worker.outbox.processes relay URL POINT    a relay that kills itself there
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from tests.worker.outbox.conftest import async_url, note, orders
from treadle import outbox
from treadle.outbox import relay, rows

POINTS = ("taken", "handed over", "noted", "committed")
"""Where a relay may die: with rows in its hands, before and after the server has them, and around their deletion."""

OF_ONE = 5
"""Orders of one transaction."""


async def shop(url: str, count: int) -> None:
    """Write orders and their tasks, on from what is there; every other transaction is rolled back first."""
    engine = create_async_engine(async_url(url))
    async with engine.connect() as connection:
        written = (await connection.execute(sa.select(sa.func.max(orders.c.n)))).scalar() or 0
    for first in range(written + 1, count + 1, OF_ONE):
        numbers = range(first, min(first + OF_ONE, count + 1))
        if first % 2:
            async with engine.connect() as connection:
                await _write(connection, [-n for n in numbers])
                await connection.rollback()
        async with engine.begin() as connection:
            await _write(connection, numbers)
    await engine.dispose()


async def _write(connection: Any, numbers: Any) -> None:
    await connection.execute(sa.insert(orders), [{"n": n} for n in numbers])
    await outbox.submit_many(connection, [note.bind(n) for n in numbers])


def doom(point: str) -> None:
    """Have this process end by kill -9 at the point."""

    def die(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it has no handler")

    def before(work: Callable[..., Any]) -> Callable[..., Any]:
        return partial(die, work)

    if point == "taken":
        relay.hand_over = before(relay.hand_over)  # type: ignore[assignment]
    elif point == "handed over":
        relay.note_outcomes = before(rows.note_outcomes)
    elif point == "noted":
        relay.note_outcomes = lambda *given: (rows.note_outcomes(*given), die())  # type: ignore[assignment]
    else:
        relay.Swept.add = before(relay.Swept.add)  # type: ignore[method-assign]


def main() -> None:
    """Run one of them."""
    kind, url, more = sys.argv[1:]
    if kind == "shop":
        asyncio.run(shop(url, int(more)))
        return
    doom(more)
    asyncio.run(relay.Relay(async_url(url), batch=4).run_once())


if __name__ == "__main__":
    main()
