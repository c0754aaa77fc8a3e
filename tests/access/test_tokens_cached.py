"""What a server remembers of tokens: another server on the database may have revoked one (G10, G11)."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from treadle.wire.server import TokenCreate
from treadle_server.access import tokens
from treadle_server.access.tokens import FRESH_SECONDS, Access
from treadle_server.clock import SystemClock
from treadle_server.errors import Unauthorized
from treadle_server.settings import Settings
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio


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
