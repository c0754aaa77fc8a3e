"""What the dispatcher remembers of lanes, of which a job that is fair between rooms has one for each room."""

from collections.abc import Collection
from typing import Any

import pytest

from tests.engine.conftest import Shop
from treadle_server.engine.dispatch import dispatcher, fairness, head_cache, known_lanes
from treadle_server.store.base import Tx

pytestmark = pytest.mark.anyio


async def serve(shop: Shop, worker: Any, room: str) -> None:
    """Submit a task from the room, claim it and complete it."""
    [task] = await shop.submit(room=room)
    assert [claimed.id for claimed in await shop.claim(worker, 10)] == [task.id]
    await shop.run(await shop.get(task.id))


async def test_what_is_remembered_of_rooms_that_were_served_long_ago_is_bounded(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grew by 2 kB with each room, for as long as the server ran."""
    for module in (dispatcher, known_lanes, head_cache):
        monkeypatch.setattr(module, "MOST_LANES", 5)
    monkeypatch.setattr(fairness, "MOST_TURNS", 5)
    shop.job = await shop.register("fair", fair="room")
    worker = await shop.worker()

    for n in range(40):
        await serve(shop, worker, f"room-{n % 25}")

    found = shop.engine.dispatcher
    kept = [found._lanes, found.head_cache._heads, found.head_cache._sizes, found.head_cache._parts]
    kept += [found._orders.heads, found._orders.turns.rooms, found._orders.turns.groups]
    assert max(map(len, kept)) <= 16


async def test_rooms_take_turns_also_when_there_are_more_than_are_remembered(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (dispatcher, known_lanes, head_cache):
        monkeypatch.setattr(module, "MOST_LANES", 2)
    shop.job = await shop.register("fair", fair="room")
    worker = await shop.worker()
    rooms = [f"room-{n}" for n in range(6)]
    for room in rooms:
        await shop.submit(3, room=room)

    claimed = [task.room for _ in range(9) for task in await shop.claim(worker, 2)]

    assert claimed == 3 * rooms


async def test_of_known_lanes_nothing_is_read_again_when_there_is_a_new_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim beside a new room read all rooms again in which tasks waited: 0.1 s with 20,000."""
    asked: list[int] = []
    read = known_lanes.claimable_lanes

    async def counted(tx: Tx, lanes: Collection[int]) -> Any:
        asked.append(len(lanes))
        return await read(tx, lanes)

    monkeypatch.setattr(known_lanes, "claimable_lanes", counted)
    shop.job = await shop.register("fair", fair="room")
    worker = await shop.worker()
    for n in range(10):
        await shop.submit(5, room=f"room-{n}")
    await shop.claim(worker)
    asked.clear()

    await shop.submit(room="new")
    await shop.claim(worker)

    assert sum(asked) == 1
