"""Counts invalid tokens by address: a client that guesses has to wait, and the log gets one line about it."""

import logging
from collections import deque

from treadle.wire.amounts import in_seconds
from treadle_server.access.addresses import network_of
from treadle_server.clock import Clock

log = logging.getLogger(__name__)

WINDOW_SECONDS = 10.0
MOST_ADDRESSES = 10_000
"""The most addresses in memory; beyond that, the one that was seen first is forgotten."""


class Failures:
    """Counts the failures of each address within the window; for IPv6 of each /64, which is what one customer has."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._by_address: dict[str, deque[float]] = {}

    def note(self, address: str) -> float | None:
        """Note a failure; if there were too many, return after how many seconds the address may try again.

        Failures during the wait do not prolong it.
        """
        if not self._most:
            return None
        now = self._clock.monotonic()
        times = self._times(network_of(address))
        while times and times[0] <= now - WINDOW_SECONDS:
            times.popleft()
        if len(times) >= self._most:
            return times[0] + WINDOW_SECONDS - now
        times.append(now)
        if len(times) == self._most:
            log.warning("%d invalid tokens came from %s within %s", len(times), address, in_seconds(WINDOW_SECONDS))
        return None

    def _times(self, network: str) -> deque[float]:
        times = self._by_address.get(network)
        if times is None:
            if len(self._by_address) >= MOST_ADDRESSES:
                del self._by_address[next(iter(self._by_address))]
            times = self._by_address[network] = deque()
        return times
