"""A real server on each kind of database, a client of it, and workers that run beside the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.worker.proxies import proxy_to
from treadle import Client, Worker
from treadle.settings import Settings
from treadle_server.testing import Served, serve

Working = Callable[..., Any]


@pytest.fixture
async def server(database_url: str) -> AsyncIterator[Served]:
    async with serve(database_url) as served:
        yield served


@pytest.fixture
async def client(server: Served) -> AsyncIterator[Client]:
    async with Client(server.url, server.token) as client:
        yield client


def settings_in(directory: Path) -> Settings:
    """Return the settings of a program on a server's machine: its token is what the directory has."""
    return Settings(data_dir=directory, token=None)


@asynccontextmanager
async def working_at(url: str, token: str, *tasks: Any, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker during the block; it drains at the end."""
    worker = Worker(tasks, url=url, token=token, **{"drain_grace": 0.5, **options})
    async with asyncio.TaskGroup() as group:
        running = group.create_task(worker.run_async())
        ready = group.create_task(worker.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        try:
            yield worker
        finally:
            worker.stop()


@pytest.fixture
def working(server: Served) -> Working:
    """Make workers that run against the server for the length of an `async with` block."""

    def at_server(*tasks: Any, **options: Any) -> Any:
        return working_at(server.url, server.token, *tasks, **options)

    return at_server


@pytest.fixture(params=["socket", "http"])
async def either(request: pytest.FixtureRequest, server: Served) -> AsyncIterator[Working]:
    """Make workers as `working` does: on the socket, and where none can be opened."""
    async with proxy_to(server.url) as proxy:
        proxy.refuses_sockets = request.param == "http"

        def at_proxy(*tasks: Any, **options: Any) -> Any:
            return working_at(proxy.url, server.token, *tasks, **options)

        yield at_proxy


@pytest.fixture
def until() -> Callable[..., Awaitable[Any]]:
    """Wait until a question is answered by yes."""
    return waiting.until
