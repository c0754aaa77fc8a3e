"""Tasks whose time has come, promoted many at once, beside whatever else one transaction does to them (E1)."""

import asyncio
import logging
from collections import Counter
from datetime import timedelta

import pytest

from treadle.wire.status import Reason, Status
from treadle_server.engine.commands import Edit, PromoteDue, StepReport
from treadle_server.store.base import LostUpdate
from treadle_server.store.transaction.counts import all_counts
from treadle_server.store.transaction.promotions import promote

pytestmark = pytest.mark.anyio

SECONDS = 10


def asleep(shop, clock, count, **details):
    return shop.submit(count, due_at=clock.now() + timedelta(seconds=SECONDS), **details)


async def counted(shop) -> Counter[tuple[str, int]]:
    """Return how many tasks the kept counts tell of each status and priority."""
    async with shop.engine.store.read() as connection:
        rows = (await connection.execute(all_counts(shop.engine.store.dialect).select())).all()
    found: Counter[tuple[str, int]] = Counter()
    for row in rows:
        found[row.status, row.priority] += row.n
    return Counter({key: n for key, n in found.items() if n})


async def test_what_is_edited_cancelled_and_promoted_in_one_transaction_is_counted_once_e1(
    shop, clock, caplog, monkeypatch
) -> None:
    # So that other commands have room in the batch.
    monkeypatch.setattr(PromoteDue, "rows", 5)
    caplog.set_level(logging.DEBUG)
    first, moved, gone, plain, aimed = [
        *await asleep(shop, clock, 4),
        *await asleep(shop, clock, 1, target="printer"),
    ]
    clock.advance(SECONDS)

    def edit(task, **changes):
        return shop.engine.run(Edit(principal=shop.principal, task_id=task.id, changes=changes))

    _, _, promoted, *_ = await asyncio.gather(
        edit(first, priority=1),  # the writer takes it at once, and then what has come meanwhile
        edit(first, priority=3),
        shop.engine.run(PromoteDue()),
        edit(moved, priority=7),
        shop.steer(gone, "cancel"),
        shop.steer(plain, "pause"),
    )

    assert promoted >= 4
    assert "another writer was faster" not in caplog.text
    found = {task.id: await shop.get(task.id) for task in (first, moved, gone, plain, aimed)}
    assert [(task.status, task.priority) for task in found.values()] == [
        (Status.PENDING, 3),
        (Status.PENDING, 7),
        (Status.CANCELLED, 0),
        (Status.PAUSED, 0),
        (Status.PENDING, 0),
    ]
    assert await counted(shop) == {
        ("pending", 3): 1,
        ("pending", 7): 1,
        ("pending", 0): 1,
        ("cancelled", 0): 1,
        ("paused", 0): 1,
    }
    worker = await shop.worker()
    assert [task.id for task in await shop.claim(worker, 9)] == [moved.id, first.id, aimed.id]


async def test_a_promoted_retry_keeps_its_reason_and_one_that_slept_has_none_e1_f4(shop, clock) -> None:
    worker = await shop.worker()
    await shop.submit(2, options={"max_retries": 3, "retry_base": SECONDS})
    failed, slept = await shop.claim(worker, 2)
    await shop.run(failed, "failed", error="boom")
    await shop.run(slept, "suspended", step=StepReport(name="sleep", seconds=float(SECONDS)))
    clock.advance(SECONDS)

    assert await shop.engine.run(PromoteDue()) == 2

    again = [await shop.get(task.id) for task in (failed, slept)]
    assert [(task.status, task.reason) for task in again] == [
        (Status.PENDING, Reason.ERROR),
        (Status.PENDING, None),
    ]


async def test_who_was_overtaken_by_another_writer_promotes_nothing_e1(shop, clock) -> None:
    first, second = await asleep(shop, clock, 2)

    async def with_versions(*versions: int) -> None:
        async with shop.engine.store.write() as tx:
            await promote(tx, list(zip((first, second), versions, strict=True)))

    with pytest.raises(LostUpdate, match="changed by another writer"):
        await with_versions(1, 2)
    assert (await shop.get(first.id)).status is Status.SCHEDULED
    await with_versions(1, 1)
    assert (await shop.get(second.id)).status is Status.PENDING
