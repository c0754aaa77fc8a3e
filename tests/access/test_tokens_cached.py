"""What a server remembers of tokens: another server on the database may have revoked one (G10, G11)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.server import TokenCreate
from treadle_server.access import tokens
from treadle_server.access.tokens import FRESH_SECONDS, Access
from treadle_server.clock import SystemClock
from treadle_server.errors import Unauthorized
from treadle_server.settings import Settings
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio


async def test_a_token_that_is_read_while_it_is_revoked_is_remembered_as_none(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(store, Settings(data_dir=tmp_path), SystemClock())
    row, token = await access.make(TokenCreate(name="alice"))
    has_read, may_go_on, read = asyncio.Event(), asyncio.Event(), store.read

    @asynccontextmanager
    async def slowly() -> AsyncIterator[AsyncConnection]:
        async with read() as connection:
            yield connection
        has_read.set()
        await may_go_on.wait()

    monkeypatch.setattr(store, "read", slowly)
    asking = asyncio.create_task(access.principal(token))
    await has_read.wait()
    await access.revoke(str(row.id))
    may_go_on.set()
    await asking

    with pytest.raises(Unauthorized):
        await access.principal(token)


async def test_g10_a_token_that_another_server_revoked_is_none_here_after_some_seconds(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = SimpleNamespace(monotonic=lambda: 1000.0)
    monkeypatch.setattr(tokens, "time", shown)
    here, there = (Access(store, Settings(data_dir=tmp_path), SystemClock()) for _ in range(2))
    row, token = await there.make(TokenCreate(name="alice"))
    assert (await here.principal(token)).user == "alice"

    await there.revoke(str(row.id))
    with pytest.raises(Unauthorized):
        await there.principal(token)
    shown.monotonic = lambda: 1000.1 + FRESH_SECONDS

    with pytest.raises(Unauthorized):
        await here.principal(token)
