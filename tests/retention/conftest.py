"""Short words for tests of what is removed and what stays."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.engine.conftest import Shop, shop
from treadle.wire.ids import TaskId
from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.services.retention import RetentionWalk, cutoffs_of
from treadle_server.store.tables import tasks

__all__ = ["shop"]

Removes = Callable[..., Awaitable[list[TaskId]]]


async def remove(shop: Shop, seconds: float = 0, *statuses: Status) -> list[TaskId]:
    """Walk once over everything that ended so long ago, and return what went, in its order."""
    ages = dict.fromkeys(statuses or TERMINAL, timedelta(seconds=seconds))
    walk = RetentionWalk(shop.engine, cutoffs_of(ages, shop.engine.clock.now()))
    gone: list[TaskId] = []
    while (step := await walk.step()) is not None:
        gone += [task.id for task in step]
    assert walk.removed.total() == len(gone)
    return gone


async def left(shop: Shop) -> set[TaskId]:
    """Return every task that there is."""
    async with shop.engine.store.read() as connection:
        return set((await connection.execute(sa.select(tasks.c.id))).scalars())


async def ended(shop: Shop, status: Status = Status.COMPLETED, **details: object) -> Task:
    """Return a task that has run and ended so."""
    worker = shop.workers[0] if shop.workers else await shop.worker()
    shop.workers[:] = [worker]
    [task] = await shop.submit(**details)
    if status is Status.CANCELLED:
        return await shop.steer(task, "cancel")
    [claimed] = await shop.claim(worker)
    assert claimed.id == task.id
    kind, said = ("completed", {"result": "1"}) if status is Status.COMPLETED else ("failed", {"error": "boom"})
    return await shop.run(claimed, kind, **said)


@pytest.fixture
def gone(shop: Shop) -> Removes:
    async def call(seconds: float = 0, *statuses: Status) -> list[TaskId]:
        return await remove(shop, seconds, *statuses)

    return call
