"""An engine with a sender, and a receiver."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
import pytest
import sqlalchemy as sa

from tests.engine.conftest import Shop, shop
from tests.waiting import until
from tests.webhooks.receiver import Receiver, receiving
from treadle_server.domain.webhooks import new_secret
from treadle_server.engine.engine import Engine
from treadle_server.store import tables
from treadle_server.webhooks.addresses import networks
from treadle_server.webhooks.post import Post
from treadle_server.webhooks.sender import Sender

__all__ = ["shop"]

LOOPBACK = networks(["127.0.0.0/8"])
EVERY_OUTCOME = ("cancelled", "completed", "failed")
THEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def hook(
    engine: Engine,
    url: str,
    *,
    room: str = "@global",
    jobs: list[str] | None = None,
    statuses=EVERY_OUTCOME,
    **values: Any,
) -> dict[str, Any]:
    """Set a webhook, as the API does."""
    row = {
        "id": str(uuid4()),
        "room": room,
        "name": f"hook-{uuid4()}",
        "url": url,
        "jobs": None if jobs is None else orjson.dumps(jobs).decode(),
        "statuses": orjson.dumps(list(statuses)).decode(),
        "secret": new_secret(),
        "owner": "admin",
        "created_at": THEN,
        "updated_at": THEN,
    } | values
    async with engine.store.write() as tx:
        await tx.connection.execute(sa.insert(tables.webhooks), row)
    await engine.hooks.refresh(engine.store)
    return row


async def outbox(engine: Engine) -> list[Any]:
    """Return what is in the outbox, the oldest first."""
    table = tables.webhook_deliveries
    async with engine.store.read() as connection:
        return list((await connection.execute(sa.select(table).order_by(table.c.id))).all())


@dataclass
class Mail:
    """A sender whose turns are made by hand."""

    sender: Sender

    async def turn(self) -> float:
        return await self.sender.turn()

    async def ended(self) -> None:
        """Let the tries that are under way end, and note what came of them."""
        await until(lambda: not self.sender._flying, pause=0.002)
        await self.sender.turn()

    async def go(self) -> None:
        """Send what is due, and note what came of it."""
        await self.turn()
        await self.ended()


@asynccontextmanager
async def mailing(engine: Engine, *, attempts: int = 3, patience: float = 5.0, post: Any = None) -> AsyncIterator[Mail]:
    """Have a sender for the block."""
    sender = Sender(
        engine, lambda: post or Post(timeout=patience, allowed=LOOPBACK), attempts=attempts, timeout=patience
    )
    async with sender.running():
        yield Mail(sender)


@pytest.fixture
async def mail(shop: Shop) -> AsyncIterator[Mail]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(mailing(shop.engine))
