"""A served database of each kind, and sockets that speak its protocol by hand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.engine.conftest import Shop
from tests.live.sockets import Socket, connected
from treadle_server.engine.engine import Engine
from treadle_server.testing import Served, serve

Open = Callable[..., Awaitable[Socket]]


@pytest.fixture
async def served(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(database_url, data_dir=tmp_path / "data", session_grace_seconds=0.2) as served:
        yield served
    assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]


@pytest.fixture
async def opened(served: Served) -> AsyncIterator[Open]:
    """Opens sockets that have said hello."""
    async with AsyncExitStack() as stack:

        async def make(token: str | None = None) -> Socket:
            return await stack.enter_async_context(connected(served, token))

        yield make


@pytest.fixture
async def shop(engine: Engine) -> Shop:
    shop = Shop(engine)
    await shop.register()
    return shop
