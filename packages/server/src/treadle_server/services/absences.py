"""Tracks workers whose connection broke and who have not reconnected, before missing heartbeats would show it.

The server whose socket broke knows at once and notifies the others; a server that misses the notice learns of it from
the missing heartbeats.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from treadle.wire.ids import WorkerId
from treadle_server.domain.jobs import Worker
from treadle_server.engine.hub import Hub

MOST = 10_000
"""Most workers that are remembered; by then missing heartbeats have revealed the absence of the earliest ones."""

Tell = Callable[[WorkerId, datetime | None], None]
"""Tells other servers since when a worker is away; None that it is back."""


class Absences:
    """The times since when workers are away whose socket was at this server (its `hub`) or at another; in memory."""

    def __init__(self, hub: Hub, alone_since: datetime | None) -> None:
        """`alone_since` is the start time of a server that can't have others beside it; otherwise None."""
        self._hub = hub
        self._alone_since = alone_since
        self._since: dict[WorkerId, datetime] = {}
        self._elsewhere: dict[WorkerId, tuple[str, datetime]] = {}
        """Reports of other servers: (server, since when)."""
        self.tell: Tell | None = None
        self.on_heard: Callable[[], None] | None = None
        """Called when another server has reported something new."""

    def begin(self, worker_id: WorkerId, at: datetime) -> None:
        """Record that a worker's connection broke, and tell the other servers."""
        self._since.setdefault(worker_id, at)
        _keep_the_last(self._since)
        if self.tell is not None:
            self.tell(worker_id, at)

    def end(self, worker_id: WorkerId) -> bool:
        """Record that a worker is back at this server; return whether it was away."""
        was_away = self._since.pop(worker_id, None) is not None
        if was_away and self.tell is not None:
            self.tell(worker_id, None)
        return self._elsewhere.pop(worker_id, None) is not None or was_away

    def hear(self, server: str, away: Mapping[WorkerId, datetime], back: Collection[WorkerId]) -> None:
        """Record another server's report about workers whose sockets it had."""
        self._elsewhere |= {worker_id: (server, at) for worker_id, at in away.items()}
        _keep_the_last(self._elsewhere)
        for worker_id in back:
            self._elsewhere.pop(worker_id, None)
        if self.on_heard is not None and (away or back):
            self.on_heard()

    def forget_heard(self) -> None:
        """Forget the other servers' reports, because one was missed: it may have said that a worker is back."""
        self._elsewhere.clear()

    def since(self, worker: Worker) -> datetime | None:
        """Return since when the worker is away; None if it is not, as far as is known."""
        if worker.home == self._hub.stream:
            return self._since.get(worker.id)
        server, at = self._elsewhere.get(worker.id, (None, None))
        if at is not None and server == worker.home:
            return at
        # It was connected to an earlier process of this server, and has not come back to this one.
        return None if worker.home is None else self._alone_since


def _keep_the_last(known: dict[WorkerId, Any]) -> None:
    while len(known) > MOST:
        del known[next(iter(known))]
