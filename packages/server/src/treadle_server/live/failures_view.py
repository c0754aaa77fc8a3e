"""Failures in groups, as observers look at them: read at most once a second, and once a minute by themselves."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.status import Status
from treadle_server.domain.failures import FAILING, written
from treadle_server.domain.visibility import Visibility
from treadle_server.engine.hub import Batch
from treadle_server.live.views import POSITION_SECONDS, ViewRows
from treadle_server.operations.encode import dumps
from treadle_server.operations.failures import group_data
from treadle_server.store.read.failures import groups

ROLLS = 60.0
"""Seconds after which the minutes have moved on."""


class FailuresView:
    """What failed and where, the last seen first."""

    topic = "failures"
    ordered = True

    def __init__(self, room: str | None, now: Callable[[], datetime], visibility: Visibility | None = None) -> None:
        self.again_in: float | None = None
        self._room = room
        self._now = now
        self._visibility = visibility
        self._read_at = float("-inf")
        self._last = ViewRows()

    def concerns(self, batch: Batch) -> bool:
        """Return whether a run failed, a failed task went on, or tasks were removed."""
        return (
            bool(batch.pruned or batch.touched)
            or any(run.status in FAILING for run in batch.runs)
            or any(was is Status.FAILED or (task.error is not None and was is not None) for task, was in batch.tasks)
        )

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each group."""
        clock = asyncio.get_running_loop().time()
        if (left := self._read_at + POSITION_SECONDS - clock) > 0:
            self.again_in = left
            return self._last
        self._read_at = clock
        found, is_capped = await groups(connection, self._now(), room=self._room, visibility=self._visibility)
        self.again_in = ROLLS if any(any(group.minutes) for group in found) else None
        self._last = ViewRows({written(group.key): dumps(group_data(group)) for group in found}, len(found), is_capped)
        return self._last
