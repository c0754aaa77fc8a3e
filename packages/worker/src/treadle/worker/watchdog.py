"""The watchdog: a thread that ends the code of targets with their leases, and says which task blocks the event loop."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from types import FrameType

from treadle.clock import monotonic
from treadle.worker.lease import LOOKS, Held, Leases, stop_margin

log: logging.Logger = logging.getLogger("treadle.worker")

BLOCKED = 2.0
"""Seconds after which an event loop that has made no turn is called blocked."""

OVERSLEPT = 0.5
"""Seconds by which the watchdog itself is late when the whole process was frozen."""

WOKEN = 1.0
"""Seconds that code which was frozen with the whole process has to stop by itself: on a busy machine the loop of one
that woke did not come to its turn within the 50 ms of the next look."""


def end_process() -> None:
    """End this process at once, whatever runs in it."""
    os._exit(75)


class Watchdog:
    """Enforces the end of targets' leases (G5), and watches the loop that it is made in.

    `abort` ends the process: a coroutine that holds a target, ignores its cancellation and has lost its lease can be
    stopped by nothing less, and another worker is about to start.
    """

    def __init__(self, leases: Leases, *, abort: Callable[[], None] = end_process) -> None:
        self._leases = leases
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._is_stopping = False
        self._turned = monotonic()
        self._woken_at = float("-inf")
        """When the process went on that was frozen."""
        self._is_asked = False
        self._has_warned = False
        # What is bound where it is made, the worker, stands in its lines too.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="treadle-watchdog", daemon=True
        )

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the thread ends by itself within moments."""
        self._is_stopping = True
        self._leases.guarded.set()

    def _run(self) -> None:
        while not self._is_stopping:
            pause = self._pause()
            due = monotonic() + pause
            self._leases.guarded.wait(pause)
            self._leases.guarded.clear()
            self._end_lost_targets(was_frozen=monotonic() - due > OVERSLEPT)
            self._look_at_loop()

    def _pause(self) -> float:
        left = min((held.last_moment for held in self._targets()), default=float("inf")) - monotonic()
        return max(0.05, min(LOOKS, left))

    def _targets(self) -> list[Held]:
        return [held for held in list(self._leases.held.values()) if held.has_target and held.code_runs and held.timer]

    def _end_lost_targets(self, *, was_frozen: bool) -> None:
        if was_frozen:
            # Nor has anything blocked the loop meanwhile.
            self._woken_at = self._turned = monotonic()
        for held in self._targets():
            now = monotonic()
            if held.stop is None and now > held.expires - stop_margin(held.length):
                # The loop's own timer is late: the loop is blocked, or the machine was asleep.
                self._in_loop(self._leases.guard, held)
            if now < held.last_moment:
                continue
            if held.kill is not None:
                held.kill()
            elif held.last_moment > self._woken_at or now >= self._woken_at + WOKEN:
                # Whoever slept past it may overlap with another anyway, until it has woken.
                self._end_process_for(held)

    def _end_process_for(self, held: Held) -> None:
        target = held.claim.get("target")
        log.critical("task %s can't be stopped and loses its target %r: the worker ends itself", held.key[0], target)
        self._abort()

    def _look_at_loop(self) -> None:
        """Ask the loop for a sign of life while it has work, and tell once when none comes."""
        if self._is_asked:
            blocked = monotonic() - self._turned
            if blocked > BLOCKED and not self._has_warned:
                self._has_warned = True
                log.warning("%s", self._explain(blocked))
        elif self._leases.held:
            self._is_asked = True
            self._turned = monotonic()
            self._in_loop(self._turn)

    def _turn(self) -> None:
        if self._has_warned:
            log.warning("the event loop goes on after %.1f s", monotonic() - self._turned)
        self._is_asked = self._has_warned = False

    def _explain(self, blocked: float) -> str:
        running = asyncio.current_task(self._loop)
        who = "something" if running is None else running.get_name()
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - what blocks can't be asked
        return (
            f"{who} has blocked the event loop for {blocked:.1f} s{_place(frame)}: make it a plain def, which runs in a"
            " thread, or call what blocks by asyncio.to_thread"
        )

    def _in_loop(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The loop is closed: the worker has ended.
            self._is_stopping = True


def _place(frame: FrameType | None) -> str:
    return "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
