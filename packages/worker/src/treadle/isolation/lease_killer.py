"""Ends a child process with its target's lease, should the worker be frozen, blocked or dead by then.

The worker writes moments into a pipe, which a thread of the child reads: doubles on the clock that both share.
"""

import math
import os
import select
import signal
import struct
import threading
from contextlib import suppress

from treadle.clock import monotonic

_MOMENT = struct.Struct("=d")


class LeaseKiller:
    """The worker's end. `reader` is the descriptor that the child gets."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._writing = threading.Lock()
        self._is_armed = False

    def arm(self, until: float) -> None:
        """Have the child end at `until`, by `treadle.clock`."""
        with self._writing:
            self._is_armed = True
            self._write(until)

    def renew(self, until: float) -> None:
        """Let it go on until then; safe from any thread, and without effect once it was disarmed."""
        with self._writing:
            if self._is_armed:
                self._write(until)

    def disarm(self) -> None:
        """Let it live: its task has ended."""
        with self._writing:
            if self._is_armed:
                self._is_armed = False
                self._write(math.inf)

    def handed_over(self) -> None:
        """Close the child's end here, now that the child has it."""
        os.close(self.reader)

    def close(self) -> None:
        """Let go of the pipe."""
        with self._writing:
            self._is_armed = False
            os.close(self._writer)

    def _write(self, moment: float) -> None:
        # A pipe that is full belongs to a child that stands still, one that is broken to a dead one.
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._writer, _MOMENT.pack(moment))


def kill_at_the_end(reader: int) -> None:
    """End this process group at the moment that was read last; the child runs it in a thread of its own."""
    until = math.inf
    while True:
        left = None if until == math.inf else max(0.0, until - monotonic())
        if not select.select([reader], [], [], left)[0]:
            end_group()
        data = os.read(reader, 64 * _MOMENT.size)
        if not data:
            end_group()
        (until,) = _MOMENT.unpack(data[-_MOMENT.size :])


def end_group() -> None:
    """End this process and all that it started, at once."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
