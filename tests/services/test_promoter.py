"""The promoter: what is due goes into the queue, in portions."""

from datetime import timedelta

from treadle.wire.status import Status
from treadle_server.engine.commands import PromoteDue
from treadle_server.services.promoter import MOST_PORTIONS, Promoter
from treadle_server.store.read.tasks import by_ids


async def test_of_many_that_are_due_at_once_a_turn_promotes_many_portions_e1(shop, clock) -> None:
    count = 2 * PromoteDue.rows + 70
    submitted = await shop.submit(count, due_at=clock.now() + timedelta(seconds=10))
    promoter = Promoter(shop.engine)
    assert await promoter.turn() > 0
    clock.advance(11)

    assert await promoter.turn() == 0

    assert await shop.engine.run(PromoteDue()) == 0
    async with shop.engine.store.read() as connection:
        stored = await by_ids(connection, [task.id for task in submitted])
    assert {(task.status, task.version, task.updated_at) for task in stored.values()} == {
        (Status.PENDING, 2, clock.now())
    }
    assert len(stored) == count < MOST_PORTIONS * PromoteDue.rows


async def test_what_can_not_be_read_ahead_is_promoted_when_it_is_due_e1(shop, clock, monkeypatch) -> None:
    [submitted] = await shop.submit(due_at=clock.now() + timedelta(seconds=1.5))
    promoter = Promoter(shop.engine)

    with monkeypatch.context() as overload:
        overload.setattr(shop.engine._queue, "is_full", lambda _: True)
        assert await promoter.turn() == 1
    clock.advance(1.5)

    assert await promoter.turn() == 0
    assert (await shop.get(submitted.id)).status is Status.PENDING
