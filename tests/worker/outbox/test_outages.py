"""The user's PostgreSQL goes away and comes back: the relay waits, says for what, and goes on (F6)."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers.postgres import OwnPostgres
from tests.waiting import until
from tests.worker.outbox.conftest import async_url, create_all, emptied, rows, submitted, write
from treadle import Client
from treadle.outbox import Relay

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
def own() -> Iterator[OwnPostgres]:
    with TemporaryDirectory(prefix="treadle-outbox-", ignore_cleanup_errors=True) as directory:
        server = OwnPostgres(Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_f6_a_database_that_stops_in_the_midst_is_waited_for(
    own: OwnPostgres, client: Client, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = create_async_engine(async_url(own.url), pool_pre_ping=True)
    async with shop.begin() as connection:
        await connection.run_sync(create_all)
    async with Relay(async_url(own.url), client=client, interval=0.01):
        await write(shop, range(3))
        await emptied(shop)
        own.stop(how)
        await until(lambda: "; trying again" in caplog.text)
        own.start()
        await write(shop, range(3, 6))
        await emptied(shop)
    left = await rows(shop)
    await shop.dispose()

    assert await submitted(client) == list(range(6))
    assert left == []
