"""Ends the dashboard when the system asks it to: in good order if it still can, and anyway."""

import asyncio
import os
import signal
from collections.abc import Callable

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name))
"""What a shell, a closed terminal, a supervisor and a shutdown send."""

GRACE_SECONDS = 2.5
"""How long it may take to end in good order. One that waits in a write to its output, say a pipe that nobody reads,
would take for ever. The guard, where there is one, waits a little longer before it kills."""


def end_by_signals(end: Callable[[int], None]) -> None:
    """Call `end` with the number of the signal, in the running loop, instead of dying at once.

    Who has not ended after the grace, with a loop that stands still or not, dies of the signal.
    """
    loop = asyncio.get_running_loop()

    # Not the loop's own handlers: those are never called by a loop that stands still.
    def received(number: int, _: object) -> None:
        _end_anyway(number)
        loop.call_soon_threadsafe(end, number)

    for number in ENDING:
        signal.signal(number, received)


def _end_anyway(number: int) -> None:
    # Windows has no timers; its consoles are restored by themselves.
    if not hasattr(signal, "setitimer"):
        return

    def die(*_: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGALRM, die)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
