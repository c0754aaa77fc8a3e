"""Two real servers in this process, on one PostgreSQL, each on a port of its own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests import waiting
from tests.clients import client_at
from tests.live.sockets import Socket, connected
from tests.servers.postgres import OwnPostgres
from treadle_server.services.relay.relay import Relay
from treadle_server.store import tables
from treadle_server.testing import Served, serve

PATIENCE = 15


class Site:
    """A server with a client of its own."""

    def __init__(self, served: Served, http: httpx.AsyncClient, stack: AsyncExitStack) -> None:
        self.served = served
        self.engine = served.engine
        self.http = http
        self._stack = stack

    async def socket(self) -> Socket:
        """Open a session."""
        return await self._stack.enter_async_context(connected(self.served))

    @property
    def relay(self) -> Relay:
        """The server's relay."""
        [found] = [one.__self__ for one in self.engine.hub._listeners if isinstance(getattr(one, "__self__", 0), Relay)]
        return found  # type: ignore[no-any-return]

    async def is_there(self) -> bool:
        """Return whether other servers find this one, and are heard by it."""
        if self.relay._listening is None:
            return False
        async with self.engine.store.read() as connection:
            shown = await connection.execute(sa.select(tables.servers.c.id))
            return self.engine.hub.stream in set(map(str, shown.scalars()))

    async def ask(self, method: str, path: str, **given: Any) -> Any:
        """Make a request and return what it is answered; fail on a problem."""
        answer = await self.http.request(method, path, **given)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


until = partial(waiting.until, seconds=PATIENCE)
"""Waits for what two servers do, as `tests.waiting` does."""


async def open_site(stack: AsyncExitStack, url: str, data: Path, **settings: Any) -> Site:
    """Start one more server on the database."""
    served = await stack.enter_async_context(serve(url, data_dir=data, session_grace_seconds=0.3, **settings))
    client = client_at(served.url, served.headers)
    return Site(served, await stack.enter_async_context(client), stack)


@pytest.fixture
async def sites(postgres_database: str, tmp_path: Path) -> AsyncIterator[tuple[Site, Site]]:
    """Two servers that know of each other."""
    async with AsyncExitStack() as stack:
        settings = {"sweeper_interval_seconds": 0.2}
        first = await open_site(stack, postgres_database, tmp_path / "data", **settings)
        # Where nothing is found by looking, the second one must find the first, and be heard by it.
        await until(first.is_there)
        second = await open_site(stack, postgres_database, tmp_path / "data", **settings)
        await until(lambda: first.relay.sender.peers_listen and second.relay.sender.peers_listen)
        yield first, second
    for site in (first, second):
        assert site.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]


@pytest.fixture
def postgres() -> Iterator[OwnPostgres]:
    """A PostgreSQL of the test's own, to be stopped and started."""
    # Not below pytest's own directory: that of root's tests is closed to the user who runs it.
    with TemporaryDirectory(prefix="treadle-postgres-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        postgres = OwnPostgres(Path(directory))
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()
