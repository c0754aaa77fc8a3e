"""What a batch of plain submits and reports does without."""

from typing import Any

import pytest

from tests.engine.conftest import Shop
from treadle_server.engine import engine as engines
from treadle_server.engine.unit_of_work import UnitOfWork

RARE = {"changes", "dependencies", "steps", "admission"}


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> list[UnitOfWork]:
    """Gives every unit of work that is made."""
    made: list[UnitOfWork] = []

    def make(*args: Any) -> UnitOfWork:
        made.append(UnitOfWork(*args))
        return made[-1]

    monkeypatch.setattr(engines, "UnitOfWork", make)
    return made


async def test_a_plain_submit_builds_no_part_that_it_has_no_need_of(shop: Shop, works: list[UnitOfWork]) -> None:
    if shop.engine.store.is_shared:
        await shop.engine.store.seek_exclusive()
    await shop.submit()
    works.clear()

    await shop.submit()

    [work] = works
    assert work.is_plain
    assert not RARE & vars(work).keys()


async def test_a_submit_that_is_not_plain_is_told_apart(shop: Shop, works: list[UnitOfWork]) -> None:
    await shop.submit()
    works.clear()

    await shop.submit(unique_key="one")

    assert not works[-1].is_plain
    assert works[-1].changes.new_tasks
