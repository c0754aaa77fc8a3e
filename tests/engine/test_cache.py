"""What the writer remembers: the numbers that it has for new tasks, and how many wait in which queue."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.engine.conftest import ADMIN, Shop
from treadle_server.domain.jobs import Lane
from treadle_server.engine import cache
from treadle_server.engine.cache import BLOCK, MOST_OF_BLOCK, Cache
from treadle_server.engine.commands import Submission, Submit
from treadle_server.store.base import Tx
from treadle_server.store.transaction import load

pytestmark = pytest.mark.anyio

TX = cast("Tx", None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many numbers were asked for each time."""
    found: list[int] = []

    async def coming(_: Tx, count: int) -> Sequence[int]:
        found.append(count)
        return range(sum(found) - count, sum(found))

    monkeypatch.setattr(cache, "coming_seqs", coming)
    return found


async def test_twice_as_many_numbers_are_asked_for_each_time_as_long_as_they_are_used_up(asked: list[int]) -> None:
    known = Cache(lambda: None)
    taken = [await known.take_seqs(TX, BLOCK) for _ in range(4 * MOST_OF_BLOCK // BLOCK)]

    assert [number for some in taken for number in some] == list(range(4 * MOST_OF_BLOCK))
    steps = [BLOCK * 2**n for n in range(7)]
    assert asked == [*steps, *[MOST_OF_BLOCK] * (len(asked) - len(steps))]
    assert MOST_OF_BLOCK in asked


async def test_whoever_takes_more_than_a_block_gets_them_at_once(asked: list[int]) -> None:
    known = Cache(lambda: None)

    assert len(await known.take_seqs(TX, 1000)) == 1000
    assert asked == [1000]


@pytest.mark.parametrize("is_told", [True, False])
async def test_who_has_to_forget_them_asks_for_few_again(asked: list[int], *, is_told: bool) -> None:
    known = Cache(lambda: None)
    for _ in range(3):
        await known.take_seqs(TX, BLOCK)

    known.invalidate([], new_tasks=True) if is_told else known.clear()
    [number] = await known.take_seqs(TX, 1)

    assert asked[-1] == BLOCK
    assert number == sum(asked[:-1])


async def position(shop: Shop, **details: Any) -> int | None:
    """Submit a task, and return the position that it is told."""
    room, options = details.pop("room", "@global"), details.pop("options", {})
    item = Submission(job_name=shop.job, payload="{}", content_hash=b"x", options=options, **details)
    [one] = await shop.engine.run(Submit(principal=ADMIN, room=room, items=[item]))
    return one.position


@pytest.fixture
def lanes_read(monkeypatch: pytest.MonkeyPatch) -> list[Lane]:
    """Return the lanes that were read."""
    found: list[Lane] = []

    def lane(*values: Any) -> Lane:
        found.append(Lane(*values))
        return found[-1]

    monkeypatch.setattr(load, "Lane", lane)
    return found


async def test_a_submit_reads_nothing_of_the_other_rooms_of_a_fair_job(shop: Shop, lanes_read: list[Lane]) -> None:
    """It read all of them for each unique key and in each new room: 0.1 s of the loop with 10,000 rooms."""
    shop.job = await shop.register("fair", fair="room")
    for n in range(30):
        await shop.submit(room=f"room-{n}")
    lanes_read.clear()

    told = [
        await position(shop, room="room-1"),
        await position(shop, room="new"),
        await position(shop, room="room-1", unique_key="k"),
        await position(shop, room="new"),
    ]

    assert told == [2, 1, 3, 2]
    assert {lane.room for lane in lanes_read} <= {"room-1", "new"}


@pytest.mark.parametrize("most", [2, 1_000], ids=["many", "few"])
async def test_positions_count_all_pools_of_a_queue_however_many_it_has(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(cache, "MOST_OF_QUEUE", most)

    pools = [f"pool-{n % 4}" for n in range(12)]
    told = [await position(shop, options={"pool": pool}) for pool in pools]
    told.append(await position(shop, unique_key="k"))
    worker = await shop.worker(pool="pool-1")
    await shop.claim(worker, 2)
    told += [await position(shop, options={"pool": pool}) for pool in ("pool-1", "new")]

    assert told == [*range(1, 14), 12, 13]


async def test_when_it_has_forgotten_the_queues_positions_go_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_LANES", 3)
    shop.job = await shop.register("fair", fair="room")

    told = [await position(shop, room=f"room-{n % 6}") for n in range(30)]

    assert told == [n // 6 + 1 for n in range(30)]
