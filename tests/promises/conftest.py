"""The rig: every promise is kept over both transports and on both databases."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import FakeClock
from tests.promises.rig import Rig, Transport, rigged
from treadle_server.services.run import Services
from treadle_server.testing import serve


@asynccontextmanager
async def _by_hand(*_: object, **__: object) -> AsyncIterator[Services]:
    """Stand in for the services' loops: the rig turns them."""
    yield Services()


@pytest.fixture(params=["http", "socket"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
async def rig(
    database_url: str, transport: Transport, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Rig]:
    """A server on the fake clock, with services that turn when they are told to."""
    monkeypatch.setattr("treadle_server.app.run_services", _by_hand)
    async with (
        serve(database_url, clock=clock, data_dir=tmp_path / "data") as served,
        rigged(served, clock, transport) as rig,
    ):
        yield rig
    assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]
