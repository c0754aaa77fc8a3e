"""A user's database of each kind with the outbox in it, a server, and what is written and found there."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from tests.waiting import until
from treadle import Client, outbox, task
from treadle.outbox.table import TABLE
from treadle_server.testing import Served, serve

ASYNC = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}

orders = sa.Table("orders", sa.MetaData(), sa.Column("n", sa.Integer, primary_key=True))


@task(category="tasks", max_retries=0)
def note(n: int, text: str = "") -> int:
    return n


@task(category="tasks", name="strict")
def strict(n: int) -> int:
    return n


def async_url(url: str) -> sa.URL:
    """The URL with the driver that is installed for tests, which is async."""
    plain = sa.make_url(url)
    return plain.set(drivername=ASYNC[plain.get_backend_name()])


def create_all(connection: sa.Connection) -> None:
    """Make the user's tables."""
    orders.metadata.create_all(connection)
    outbox.create_table(connection)


@pytest.fixture
async def shop(empty_database_url: str) -> AsyncIterator[AsyncEngine]:
    """The user's engine; its database has a table of orders and the outbox."""
    engine = create_async_engine(async_url(empty_database_url))
    async with engine.begin() as connection:
        await connection.run_sync(create_all)
    yield engine
    await engine.dispose()


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serve() as served:
        yield served


@pytest.fixture
async def client(server: Served) -> AsyncIterator[Client]:
    async with Client(server.url, server.token, patience=0) as client:
        yield client


async def write(shop: AsyncEngine, numbers: Iterator[int] | range, **options: Any) -> list[str]:
    """Submit a task for each number, all in one transaction."""
    async with shop.begin() as connection:
        return list(await outbox.submit_many(connection, [note.bind(n) for n in numbers], **options))


async def rows(shop: AsyncEngine) -> list[Any]:
    """What stands in the outbox, in order."""
    async with shop.connect() as connection:
        return list(await connection.execute(sa.select(TABLE).order_by(TABLE.c.seq)))


async def submitted(client: Client) -> list[int]:
    """The numbers of the tasks that the server has, in the order in which they came."""
    found = [item.payload["n"] async for item in client.list()]
    return found[::-1]


async def emptied(shop: AsyncEngine) -> None:
    """Wait until nothing is left in the outbox."""

    async def is_empty() -> bool:
        return not await rows(shop)

    await until(is_empty)
