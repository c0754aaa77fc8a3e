"""Limits with their use, as observers look at them: read at most once a second."""

import asyncio

from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.visibility import Visibility
from treadle_server.engine.hub import Batch
from treadle_server.live.views import POSITION_SECONDS, ViewRows
from treadle_server.operations.encode import dumps, limit_data
from treadle_server.store.read import limits as read_limits

MOST_LIMITS = 1_000
"""Limits that an observer is shown; `total` tells how many there are."""


class LimitsView:
    """What is used of each limit, and waits for it, the newest first."""

    topic = "limits"
    ordered = False

    def __init__(self, room: str | None, visibility: Visibility | None = None) -> None:
        self.again_in: float | None = None
        self._room = room
        self._visibility = visibility
        self._read_at = float("-inf")
        self._last = ViewRows()

    def concerns(self, batch: Batch) -> bool:
        """Return whether a limit changed, or a task that counts against one, or code stopped that may have."""
        if batch.has_limits or batch.freed:
            return True
        return any(change.task.limit_key is not None for change in batch.tasks)

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return a row for each, at most `MOST_LIMITS`."""
        clock = asyncio.get_running_loop().time()
        if (left := self._read_at + POSITION_SECONDS - clock) > 0:
            # What has changed since is read when the second is over.
            self.again_in = left
            return self._last
        self.again_in = None
        found, total = await read_limits.page(
            connection, room=self._room, visibility=self._visibility, limit=MOST_LIMITS, offset=0
        )
        self._last = ViewRows({str(view.limit.num): dumps(limit_data(view)) for view in found}, total)
        self._read_at = clock
        return self._last
