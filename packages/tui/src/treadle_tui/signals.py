"""Ends the dashboard in good order when the system asks it to."""

import asyncio
import signal
from collections.abc import Callable

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name))
"""What a shell, a closed terminal, a supervisor and a shutdown send."""


def end_by_signals(end: Callable[[int], None]) -> None:
    """Call `end` with the number of the signal, in the running loop, instead of dying at once."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        try:
            loop.add_signal_handler(number, end, int(number))
        except NotImplementedError:
            # Windows has no such thing; its consoles are restored by themselves.
            return
