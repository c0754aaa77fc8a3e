"""The clock that leases are measured by: it never goes back, and keeps running while the machine sleeps."""

import sys
import time

# time.monotonic() stands still while a laptop sleeps or a machine is suspended; the server's lease doesn't.
if sys.platform == "linux":
    _CLOCK = time.CLOCK_BOOTTIME
elif sys.platform != "win32":
    _CLOCK = time.CLOCK_MONOTONIC


def monotonic() -> float:
    """Return seconds since some moment in the past, the same moment for all processes of this machine."""
    if sys.platform == "win32":
        return time.monotonic()
    return time.clock_gettime(_CLOCK)
