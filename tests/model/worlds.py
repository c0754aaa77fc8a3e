"""The real things that the model is compared with: servers in this process, on a clock that stands still."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import asyncpg
import httpx
from starlette.applications import Starlette

from tests.conftest import FakeClock
from tests.model.sites import Site, Tokens
from tests.model.things import ROOT
from treadle_server.app import create_app
from treadle_server.services.run import Services
from treadle_server.settings import Settings
from treadle_server.store.store import SqlStore


@asynccontextmanager
async def _by_hand(*_: object, **__: object) -> AsyncIterator[Services]:
    """Stand in for the services' loops: the programs turn them."""
    yield Services()


class World:
    """A database, the clock of those who work on it, and how to open servers there."""

    servers = 1

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self._clock = FakeClock()
        self.tokens: Tokens = {}
        """Which all of its servers take."""

    def now(self) -> datetime:
        """Return the store's time."""
        return self._clock.now()

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._clock.advance(seconds)

    def _create(self, settings: Settings, number: int) -> Starlette:
        return create_app(settings, clock=self._clock)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[list[Site]]:
        """Open the servers; the sweeper of the first has done the turn of the start."""
        sites: list[Site] = []
        with mock.patch("treadle_server.app.run_services", _by_hand):
            try:
                sites += [await self._start(number) for number in range(self.servers)]
                await self._settle(sites)
                await sites[0].turn("sweep")
                await sites[0].make_tokens()
                yield sites
            finally:
                for site in reversed(sites):
                    await site.stack.aclose()
        for site in sites:
            assert site.engine.store.connections_checked_out() == 0

    async def _start(self, number: int) -> Site:
        # They share the directory, and so the token of the start.
        settings = Settings(host="127.0.0.1", port=0, database_url=self.url, data_dir=self.directory / "data")
        async with AsyncExitStack() as stack:
            app = self._create(settings, number)
            await stack.enter_async_context(app.router.lifespan_context(app))
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            http = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1"))
            self.tokens[ROOT.name] = settings.token_file.read_text().strip()
            return Site(app, http, self.tokens, stack.pop_all())

    async def _settle(self, sites: list[Site]) -> None:
        for site in sites:
            await site.engine.store.seek_exclusive()

    def passed(self) -> float:
        """Return the seconds of a clock that nobody sets."""
        return self._clock.monotonic()

    async def jump(self, seconds: float) -> None:
        """Set the store's clock."""
        self._clock.jump(seconds)

    async def restart(self, sites: list[Site], number: int) -> None:
        """End a server and start another in its place, which sweeps as the first thing that it does."""
        await sites[number].stack.aclose()
        await self._replace(sites, number)

    async def kill(self, sites: list[Site], number: int) -> None:
        """Kill a server, and start another in its place."""
        await sites[number].kill()
        await self._replace(sites, number)

    async def _replace(self, sites: list[Site], number: int) -> None:
        sites[number] = await self._start(number)
        if self.servers == 1:
            await self._settle(sites)
        await sites[number].turn("sweep")


class Machine(FakeClock):
    """A server's own clocks: its time of day is wrong, and decides nothing."""

    def __init__(self, ahead: float) -> None:
        super().__init__()
        self.at += timedelta(seconds=ahead)


CLOCK = """
CREATE SCHEMA IF NOT EXISTS standing;
CREATE TABLE IF NOT EXISTS standing.clock (at timestamptz);
CREATE OR REPLACE FUNCTION standing.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT at FROM standing.clock';
DELETE FROM standing.clock;
"""
"""A clock of the database that stands still until it is set: its sessions look for functions there first."""


class TwoServers(World):
    """Two servers on one PostgreSQL, one of whose clocks is a minute slow and the other's an hour fast."""

    servers = 2

    def __init__(self, url: str, directory: Path) -> None:
        super().__init__(url, directory)
        self._machines = [Machine(-60.0), Machine(3600.0)]
        self._driver: asyncpg.Connection[Any] | None = None

    async def advance(self, seconds: float) -> None:
        await super().advance(seconds)
        for machine in self._machines:
            machine.advance(seconds)
        await self._show()

    async def jump(self, seconds: float) -> None:
        await super().jump(seconds)
        await self._show()

    async def _show(self) -> None:
        assert self._driver is not None
        await self._driver.execute("UPDATE standing.clock SET at = $1", self._clock.now())

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[list[Site]]:
        self._driver = await asyncpg.connect(self.url)
        try:
            await self._driver.execute(CLOCK)
            await self._driver.execute("INSERT INTO standing.clock VALUES ($1)", self._clock.now())
            name = await self._driver.fetchval("SELECT current_database()")
            await self._driver.execute(f'ALTER DATABASE "{name}" SET search_path = standing, public, pg_catalog')
            async with super().opened() as sites:
                yield sites
        finally:
            await self._driver.close()

    def _create(self, settings: Settings, number: int) -> Starlette:
        store = partial(SqlStore, machine=self._machines[number])
        with mock.patch("treadle_server.app.SqlStore", store):
            return create_app(settings)

    async def _settle(self, sites: list[Site]) -> None:
        """Nobody is the exclusive writer."""
