"""A served database of each kind, and clients that speak to it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.api.rooms import NewUser, Room, Scoped, make_room
from tests.clients import client_at
from treadle_server.testing import Served, serve


@pytest.fixture
async def served(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(
        database_url, data_dir=tmp_path / "data", long_poll_max_wait_seconds=30, max_failed_tokens=0
    ) as served:
        yield served
    assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]


@pytest.fixture
async def root(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """The superuser."""
    async with client_at(served.url, served.headers) as client:
        yield client


@pytest.fixture
async def user(served: Served, root: httpx.AsyncClient) -> AsyncIterator[NewUser]:
    """Makes users without scopes."""
    async with AsyncExitStack() as stack:

        async def make(name: str) -> httpx.AsyncClient:
            made = await root.post("/v1/tokens", json={"name": name})
            assert made.status_code == 201
            headers = {"Authorization": f"Bearer {made.json()['token']}"}
            return await stack.enter_async_context(client_at(served.url, headers))

        yield make


@pytest.fixture
async def scoped(served: Served, root: httpx.AsyncClient) -> AsyncIterator[Scoped]:
    """Makes users with scopes."""
    async with AsyncExitStack() as stack:

        async def make(*scopes: str, name: str = "sam", **more: object) -> httpx.AsyncClient:
            made = await root.post("/v1/tokens", json={"name": name, "scopes": list(scopes), **more})
            assert made.status_code == 201, made.text
            headers = {"Authorization": f"Bearer {made.json()['token']}"}
            return await stack.enter_async_context(client_at(served.url, headers))

        yield make


@pytest.fixture
async def alice(user: NewUser) -> httpx.AsyncClient:
    return await user("alice")


@pytest.fixture
async def bob(user: NewUser) -> httpx.AsyncClient:
    return await user("bob")


@pytest.fixture
async def lab(root: httpx.AsyncClient) -> Room:
    return await make_room(root)
