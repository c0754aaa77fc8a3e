"""Ends the dashboard on a signal: cleanly if possible, and otherwise by force."""

import asyncio
import os
import signal
from collections.abc import Callable

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name))
"""The signals of a shell, a closed terminal, a supervisor and a shutdown."""

GRACE_SECONDS = 2.5
"""How long a clean exit may take. A dashboard stuck in a write to its output, such as a pipe that nobody reads, would
never exit. The guard, if there is one, waits a little longer before it kills the process."""


def end_by_signals(end: Callable[[int], None]) -> None:
    """Call `end` in the running loop with the signal's number, instead of dying at once.

    A process that has not exited after the grace period dies of the signal, even if its loop is stuck.
    """
    loop = asyncio.get_running_loop()

    # Not the loop's own handlers: a stuck loop never calls them.
    def received(number: int, _: object) -> None:
        _end_anyway(number)
        loop.call_soon_threadsafe(end, number)

    for number in ENDING:
        signal.signal(number, received)


def _end_anyway(number: int) -> None:
    # Windows has no timers, but its consoles restore themselves.
    if not hasattr(signal, "setitimer"):
        return

    def die(*_: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGALRM, die)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
