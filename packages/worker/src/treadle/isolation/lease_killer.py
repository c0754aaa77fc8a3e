"""Kills a child process when its lease ends and its worker is frozen; with a target, whatever the worker does.

The worker writes times into a pipe, which a thread of the child reads: doubles, on the clock that both share.
"""

import math
import os
import signal
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from select import select  # this one, which gevent replaces in its module

from treadle.clock import monotonic

_MOMENT = struct.Struct("=d")


class LeaseKiller:
    """The worker's end. `reader` is the descriptor that the child gets."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._writing = threading.Lock()
        self._armed: object = None
        self._is_closed = False

    def arm(self, until: float) -> Callable[[float], None]:
        """Have the child killed at `until`, by `treadle.clock`, and return what puts that off.

        That may be called from any thread, and does nothing once it is disarmed, even if it was armed anew.
        """
        with self._writing:
            armed = self._armed = object()
            self._write(until)
        return partial(self._renew, armed)

    def _renew(self, armed: object, until: float) -> None:
        with self._writing:
            if self._armed is armed:
                self._write(until)

    def disarm(self) -> None:
        """Let the child live, because its task has ended."""
        with self._writing:
            if self._armed is not None:
                self._armed = None
                self._write(math.inf)

    def handed_over(self) -> None:
        """Close the child's end in this process, now that the child has it."""
        os.close(self.reader)

    def close(self) -> None:
        """Close the pipe, once: after that its number may belong to another file."""
        with self._writing:
            if not self._is_closed:
                os.close(self._writer)
            self._armed, self._is_closed = None, True

    def _write(self, moment: float) -> None:
        # A full pipe belongs to a child that is suspended, a broken one to a dead child.
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._writer, _MOMENT.pack(moment))


def kill_at_the_end(reader: int) -> None:
    """Kill this process group at the time that was read last; run by the child in a thread of its own."""
    until = math.inf
    while True:
        left = None if until == math.inf else max(0.0, until - monotonic())
        if not select([reader], [], [], left)[0]:
            end_group()
        data = os.read(reader, 64 * _MOMENT.size)
        if not data:
            end_group()
        (until,) = _MOMENT.unpack(data[-_MOMENT.size :])


def end_group() -> None:
    """Kill this process and all that it started, at once."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
