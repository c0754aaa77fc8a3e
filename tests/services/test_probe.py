"""What could not be written is told until as much as a large batch can be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.engine.conftest import Shop
from tests.waiting import until
from treadle_server.errors import StoreUnavailable
from treadle_server.services import probe
from treadle_server.services.probe import Probe
from treadle_server.store.base import Tx

pytestmark = pytest.mark.anyio


async def test_a_small_write_that_fits_is_no_word_that_the_disk_has_room(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat or a small submit had the server be ready again while larger ones were refused."""

    def full(**_: Any) -> None:
        raise StoreUnavailable("the database's disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(shop.engine.store, "write", full)
        with pytest.raises(StoreUnavailable):
            await shop.submit()

    await shop.submit()

    assert shop.engine.trouble is not None
    await Probe(shop.engine).turn()
    assert shop.engine.trouble is None


async def test_a_write_that_does_not_end_is_trouble_while_it_lasts(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a synchronous standby was gone each submit waited for ever, and the server said that it is ready."""
    may_end = asyncio.Event()
    write = shop.engine.store.write

    @asynccontextmanager
    async def waiting(**details: Any) -> AsyncIterator[Tx]:
        await may_end.wait()
        async with write(**details) as tx:
            yield tx

    monkeypatch.setattr(shop.engine.store, "write", waiting)
    monkeypatch.setattr(probe, "PATIENCE", 0.0)
    turn = asyncio.ensure_future(Probe(shop.engine).turn())

    trouble = await until(lambda: shop.engine.trouble)

    assert trouble is not None
    assert "has not ended" in trouble.detail
    may_end.set()
    await turn
    assert shop.engine.trouble is None
