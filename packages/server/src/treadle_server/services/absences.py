"""Which workers lost their connection to this server and are not back: their heartbeats would tell it only later."""

from datetime import datetime

from treadle.wire.ids import WorkerId
from treadle_server.domain.jobs import Worker

MOST = 10_000
"""Workers that are remembered; of those that left first the missing heartbeats have told by then."""


class Absences:
    """Since when workers are away whose socket was at the server that started as `stream`; kept in memory."""

    def __init__(self, stream: str, alone_since: datetime | None) -> None:
        """`alone_since` is when it started, of a server beside which there can be no other; None of the others."""
        self._stream = stream
        self._alone_since = alone_since
        self._since: dict[WorkerId, datetime] = {}

    def begin(self, worker_id: WorkerId, at: datetime) -> None:
        """Note that a worker's connection broke."""
        self._since.setdefault(worker_id, at)
        if len(self._since) > MOST:
            del self._since[next(iter(self._since))]

    def end(self, worker_id: WorkerId) -> bool:
        """Note that a worker is back; return whether it was away."""
        return self._since.pop(worker_id, None) is not None

    def since(self, worker: Worker) -> datetime | None:
        """Return since when the worker is away; None for one that is here, at another server, or over HTTP."""
        if worker.home == self._stream:
            return self._since.get(worker.id)
        # It was at the server's last start, and has not come back to this one.
        return None if worker.home is None else self._alone_since
