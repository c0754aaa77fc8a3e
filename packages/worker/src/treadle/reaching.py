"""Reaching a server, by socket or HTTP: the pauses between attempts, and the hosts that no proxy stands before."""

import ipaddress
import random
from collections.abc import Iterator

_LONGEST_DELAY = 5.0


def delays() -> Iterator[float]:
    """Seconds between attempts: doubling from 0.1 to 5, each drawn from its upper half, so that crowds spread out."""
    delay = 0.1
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, _LONGEST_DELAY)


def is_loopback(host: str | None) -> bool:
    """Return whether a URL's host is this machine, which no proxy stands before."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
