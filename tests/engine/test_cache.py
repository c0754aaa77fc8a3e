"""What the writer remembers: the numbers that it has for new tasks."""

from collections.abc import Sequence
from typing import cast

import pytest

from treadle_server.engine import cache
from treadle_server.engine.cache import BLOCK, MOST_OF_BLOCK, Cache
from treadle_server.store.base import Tx

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

    known.invalidate([], [], new_tasks=True) if is_told else known.clear()
    [number] = await known.take_seqs(TX, 1)

    assert asked[-1] == BLOCK
    assert number == sum(asked[:-1])
