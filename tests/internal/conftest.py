"""Servers whose executors the test plays itself, and servers that run functions in their own process."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.internal import jobs
from tests.internal.site import PaperBroker, Site, site
from tests.promises.conftest import _by_hand
from treadle.internal import InternalRegistry

Serving = Callable[..., AbstractAsyncContextManager[Site]]


@pytest.fixture
def broker() -> PaperBroker:
    return PaperBroker()


@pytest.fixture
def serving(
    database_url: str, clock: FakeClock, tmp_path: Path, broker: PaperBroker, monkeypatch: pytest.MonkeyPatch
) -> Serving:
    """Starts a server on the same database each time, on the fake clock, with the services turned by hand."""
    monkeypatch.setattr("treadle_server.app.run_services", _by_hand)
    made: list[InternalRegistry] = []

    def start(concurrency: int = 100, **settings: Any) -> AbstractAsyncContextManager[Site]:
        if not made:
            made.append(InternalRegistry([jobs.add, jobs.counts], broker=broker, concurrency=concurrency))
        return site(database_url, made[0], clock=clock, data_dir=tmp_path / "data", **settings)

    return start


@pytest.fixture
async def dispatcher(serving: Serving) -> AsyncIterator[Site]:
    """A server of `add` and `counts`, whose claims go to `broker`."""
    async with serving() as made:
        yield made


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Makes servers that run tasks in their own process."""
    async with AsyncExitStack() as stack:

        async def make(*tasks: Any, **options: Any) -> Site:
            registry = InternalRegistry(tasks, **options)
            return await stack.enter_async_context(site(None, registry, data_dir=tmp_path / "data"))

        yield make
