"""The sweeper of artifacts: removes expired artifacts, unfinished uploads, and objects without a row (C10)."""

import logging
from collections.abc import AsyncGenerator
from datetime import timedelta

from treadle.wire.amounts import counted
from treadle_server.artifacts.objects import Objects
from treadle_server.engine.commands import SweepArtifacts
from treadle_server.engine.commands.artifacts import MOST
from treadle_server.engine.engine import Engine
from treadle_server.services.base import EngineService
from treadle_server.store.read.artifacts import known

log = logging.getLogger(__name__)

EVERY = 30.0
"""Seconds between turns. Requests for an expired artifact are answered that it is gone, whether it was swept or not."""

STRAY = timedelta(hours=1)
"""The age from which an object without a row is taken for a leftover of a crash or a removed task."""


class ArtifactSweeper(EngineService):
    """Deletes rows first, then their objects; an object that a crash leaves in between is found by its age."""

    name = "artifacts"

    def __init__(self, engine: Engine, objects: Objects) -> None:
        super().__init__(engine)
        self._objects = objects
        self._looked_at: float | None = None
        self._listing: AsyncGenerator[None, None] | None = None
        """The search for strays in progress."""

    def take_over(self) -> None:
        """Drop a listing from an earlier term."""
        self._listing = None

    async def turn(self) -> float:
        """Sweep once; once an hour, and at first, look for strays, a page of the store's listing each turn.

        A first turn that listed all of 100,000 objects kept a server from being ready for 9 s.
        """
        taken = MOST
        while taken >= MOST:
            locations = await self._engine.run(SweepArtifacts())
            await self._objects.remove(locations)
            taken = len(locations)
        now = self._engine.clock.monotonic()
        if self._listing is None:
            if self._looked_at is not None and now - self._looked_at < STRAY.total_seconds():
                return EVERY
            self._listing = self._remove_strays()
        try:
            async for _ in self._listing:
                return 0
        except BaseException:
            self._listing = None
            raise
        self._listing, self._looked_at = None, now
        return EVERY

    async def _remove_strays(self) -> AsyncGenerator[None, None]:
        """Remove strays; yields after each page of the listing."""
        until = self._engine.clock.now() - STRAY
        removed = await self._objects.remove_unfinished(until)
        async for locations in self._objects.older_than(until):
            if locations:
                async with self._engine.store.read() as connection:
                    strays = set(locations) - await known(connection, locations)
                removed += await self._objects.remove(strays)
            yield
        if removed:
            log.info("removed %s that belonged to no artifact", counted(removed, "object"))
