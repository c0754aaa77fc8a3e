"""The timeout of a run."""

import asyncio

from treadle.worker.lease import Held, Leases


class Timing:
    """The timeout of one run, counted from when its code begins, not from when a process for it is started."""

    __slots__ = ("_held", "_leases", "_timer")

    def __init__(self, leases: Leases, held: Held) -> None:
        self._leases = leases
        self._held = held
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start counting, if the run has a timeout."""
        timeout = self._held.claim.get("timeout")
        if timeout is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(timeout, self._leases.stop_run, self._held, "timeout")

    def end(self) -> bool:
        """Stop counting; return whether it was counting."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._timer = None
        return True
