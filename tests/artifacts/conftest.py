"""A server on the fake clock whose services are turned by hand, and a run that uploads to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.artifacts.studio import Studio, opened
from tests.conftest import FakeClock
from treadle_server.services.run import Services
from treadle_server.testing import serve


@asynccontextmanager
async def _by_hand(*_: object, **__: object) -> AsyncIterator[Services]:
    """Stand in for the services' loops: the test turns them."""
    yield Services()


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A database for what does not differ between the two."""
    path = tmp_path / "treadle.db"
    path.write_bytes(sqlite_template.read_bytes())
    return f"sqlite:///{path}"


@pytest.fixture
async def studio(
    sqlite_url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Studio]:
    """On SQLite, with artifacts in a directory."""
    monkeypatch.setattr("treadle_server.app.run_services", _by_hand)
    async with serve(sqlite_url, clock=clock, data_dir=tmp_path / "data", artifacts_max_bytes=5_000_000) as served:
        async with opened(served, clock) as studio:
            yield studio
        assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]


@pytest.fixture
async def either(
    database_url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Studio]:
    """On each kind of database in turn."""
    monkeypatch.setattr("treadle_server.app.run_services", _by_hand)
    async with serve(database_url, clock=clock, data_dir=tmp_path / "data") as served:
        async with opened(served, clock) as studio:
            yield studio
        assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]


@pytest.fixture
async def nobody() -> AsyncIterator[httpx.AsyncClient]:
    """Somebody without a token."""
    async with httpx.AsyncClient(timeout=30) as client:
        yield client
