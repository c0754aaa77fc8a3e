"""The user's PostgreSQL goes away and comes back: the relay waits, says for what, and goes on, or ends (F6)."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers.postgres import OwnPostgres
from tests.waiting import until
from tests.worker.outbox.conftest import async_url, create_all, emptied, rows, submitted, write
from treadle import Client
from treadle.outbox import Relay, database, relay

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


@pytest.mark.parametrize("point", ["take", "note_outcomes"])
async def test_f6_a_relay_ends_beside_a_database_that_is_frozen_in_the_midst_of_rows(
    own: OwnPostgres, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, point: str
) -> None:
    """Neither a signal nor the end of its block ended it."""
    monkeypatch.setattr(relay, "GRACE", 0.01)
    monkeypatch.setattr(relay, "NOTING", 0.01)
    shop = create_async_engine(async_url(own.url))
    async with shop.begin() as connection:
        await connection.run_sync(create_all)
    await write(shop, range(3))
    work, is_frozen = getattr(relay, point), asyncio.Event()

    with ExitStack() as stack:

        def frozen(*given: Any) -> Any:
            stack.enter_context(own.frozen())
            is_frozen.set()
            return work(*given)

        monkeypatch.setattr(relay, point, frozen)
        async with asyncio.timeout(30), Relay(shop, client=client, interval=0.01):
            await is_frozen.wait()
    monkeypatch.undo()
    async with Relay(shop, client=client, interval=0.01):
        await emptied(shop)
    await shop.dispose()

    assert "was stopped while handing over rows; the next relay hands them over again" in caplog.text
    assert await submitted(client) == list(range(3))


async def test_f6_a_relay_that_pauses_ends_beside_a_database_that_is_frozen(
    own: OwnPostgres, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "CLOSING", 0.01)
    pause, pauses = Relay._pause, asyncio.Event()

    async def paused(one: Relay, seconds: float) -> None:
        pauses.set()
        await pause(one, seconds)

    monkeypatch.setattr(Relay, "_pause", paused)
    shop = create_async_engine(async_url(own.url))
    async with shop.begin() as connection:
        await connection.run_sync(create_all)
    await shop.dispose()

    with ExitStack() as stack:
        async with asyncio.timeout(30), Relay(async_url(own.url), client=client, interval=3600):
            await pauses.wait()
            stack.enter_context(own.frozen())

    assert "does not answer; giving up its connections" in caplog.text
