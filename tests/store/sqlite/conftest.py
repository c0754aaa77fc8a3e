"""A store on SQLite, in a file of the test's own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treadle_server.store.store import SqlStore


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(f"sqlite:///{tmp_path / 'x.db'}")
    await store.open()
    yield store
    assert store.connections_checked_out() == 0
    await store.close()
