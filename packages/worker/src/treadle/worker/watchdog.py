"""The watchdog: a thread that ends targets' code when their leases end, and reports what blocks the event loop.

It also tells child processes that their worker does not stand still.
"""

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
"""Seconds without a turn of the event loop after which it is called blocked."""

OVERSLEPT = 0.5
"""If the watchdog itself is late by so many seconds, the whole process was frozen."""

WOKEN = 1.0
"""Seconds that code has to stop by itself after the whole process was frozen: on a busy machine the event loop did not
get a turn within the 50 ms before the next look."""


def end_process() -> None:
    """End this process at once, whatever is running in it."""
    os._exit(75)


class Watchdog:
    """Enforces the end of targets' leases (G5), and watches the event loop in which it was created.

    `abort` ends the process: nothing less stops a coroutine that holds a target, ignores its cancellation and has lost
    its lease, and another worker is about to start.
    """

    def __init__(self, leases: Leases, *, abort: Callable[[], None] = end_process) -> None:
        self._leases = leases
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._is_stopping = False
        self._turned = monotonic()
        self._woken_at = float("-inf")
        """When the process last woke after it was frozen."""
        self._is_asked = False
        self._has_warned = False
        # In a copy of the context, so that its log lines, too, name the worker that is bound in it.
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
            self._keep_processes()
            self._look_at_loop()

    def _pause(self) -> float:
        left = min((held.last_moment for held in self._targets()), default=float("inf")) - monotonic()
        return max(0.05, min(LOOKS, left))

    def _targets(self) -> list[Held]:
        return [held for held in list(self._leases.held.values()) if held.has_target and held.code_runs and held.timer]

    def _end_lost_targets(self, *, was_frozen: bool) -> None:
        if was_frozen:
            # The process was frozen, so the loop was not blocked by code.
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
                # If it slept past that moment, it may overlap with another worker anyway, until it has woken.
                self._end_process_for(held)

    def _keep_processes(self) -> None:
        for held in list(self._leases.held.values()):
            if (goes_on := held.goes_on) is not None:
                goes_on()

    def _end_process_for(self, held: Held) -> None:
        target = held.claim.get("target")
        log.critical(
            "task %s can't be stopped and is losing its target %r: the worker ends itself", held.key[0], target
        )
        self._abort()

    def _look_at_loop(self) -> None:
        """Ask the loop for a sign of life while it has work, and warn once when none comes."""
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
            log.warning("the event loop is running again after %.1f s", monotonic() - self._turned)
        self._is_asked = self._has_warned = False

    def _explain(self, blocked: float) -> str:
        running = asyncio.current_task(self._loop)
        who = "something" if running is None else running.get_name()
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the blocked thread can't be asked
        return (
            f"{who} has blocked the event loop for {blocked:.1f} s{_place(frame)}: make it a plain def, which runs in a"
            " thread, or move the blocking call to asyncio.to_thread"
        )

    def _in_loop(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The loop is closed: the worker has ended.
            self._is_stopping = True


def _place(frame: FrameType | None) -> str:
    return "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
