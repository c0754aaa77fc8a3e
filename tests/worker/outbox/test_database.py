"""What the relay asks of a database that is not async, in a thread."""

import asyncio
import gc
import threading
from pathlib import Path

import pytest

from tests.waiting import turns
from treadle.outbox.database import Database
from treadle.settings import InvalidSetting

pytestmark = pytest.mark.anyio


async def test_what_fails_in_the_thread_for_one_who_was_cancelled_is_no_error_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(f"sqlite:///{tmp_path}/shop.db")
    begun, fails = threading.Event(), threading.Event()

    def work(_: object) -> None:
        begun.set()
        fails.wait()
        raise OSError("the disk is full")

    async def ask() -> None:
        async with database.begin() as do:
            await do(work)

    asking = asyncio.create_task(ask())
    await asyncio.to_thread(begun.wait)
    asking.cancel()
    await turns(5)
    fails.set()

    with pytest.raises(asyncio.CancelledError):
        await asking
    await database.close()
    gc.collect()
    assert caplog.messages == []


def test_an_encrypted_connection_is_asked_for_of_asyncpg_as_of_psql_f6() -> None:
    """Each transaction failed with a TypeError: asyncpg calls it `ssl`."""
    named = Database("postgresql+asyncpg://me@localhost/shop?sslmode=require&host=/run/postgresql")

    assert dict(named.url.query) == {"ssl": "require", "host": "/run/postgresql"}


def test_an_option_that_asyncpg_does_not_have_is_refused_f6() -> None:
    with pytest.raises(InvalidSetting, match="asyncpg has no option channel_binding; write an SQLAlchemy URL"):
        Database("postgresql+asyncpg://me@localhost/shop?channel_binding=require")
