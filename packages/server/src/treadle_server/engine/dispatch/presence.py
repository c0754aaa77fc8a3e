"""Decides whether a worker owes a heartbeat: until it has sent it, the worker is given no new task."""

from dataclasses import dataclass
from datetime import datetime

from treadle.wire.workers import beat_every
from treadle_server.domain.jobs import Worker

LATE = 1.0
"""Seconds by which a heartbeat may be late; those of idle workers wait up to half a second to be written."""


@dataclass(slots=True)
class Presence:
    """When a worker that waits for tasks was last heard from."""

    last_heartbeat: datetime | None = None
    """By the store's clock; None if not known yet."""
    at: float = float("inf")
    """When this server learned of that heartbeat, by the monotonic clock; until then nothing is owed."""
    has_lost: bool = False
    """Whether it has lost a run since; it must then send heartbeats as if it still had it."""

    def note(self, worker: Worker, at: float) -> None:
        """Note the worker as it is now."""
        # `!=`, not `>`: after the clock was set back, every worker would seem silent until the clock had caught up.
        if worker.last_heartbeat != self.last_heartbeat:
            self.last_heartbeat, self.at = worker.last_heartbeat, at
        self.has_lost = worker.owes_for_lost

    def owes(self, at: float, lost_after: float, *, busy_since: float | None) -> bool:
        """Return whether a heartbeat is overdue at the monotonic instant `at`.

        `busy_since` is when the worker was given what it holds, None if it holds nothing. Without a heartbeat for
        `lost_after` seconds, a worker is lost.
        """
        since = self.at if busy_since is None else max(self.at, busy_since)
        is_busy = busy_since is not None or self.has_lost
        return at > since + beat_every(lost_after, is_busy=is_busy) + LATE
