"""What could not be written is told until as much as a large batch can be."""

from typing import Any

import pytest

from tests.engine.conftest import Shop
from treadle_server.errors import StoreUnavailable
from treadle_server.services.probe import Probe

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
