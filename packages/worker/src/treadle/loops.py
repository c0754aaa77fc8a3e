"""Event loops: the loop of Treadle's own processes, their signals, and helpers for tasks and threads in any loop."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from treadle.standard_files import open_closed_streams

P = ParamSpec("P")
R = TypeVar("R")

_before: dict[signal.Signals, Any] = {}
"""The previous handlers of the signals that are handled now."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the event loop, for `asyncio.Runner`; None for asyncio's own.

    A worker of short tasks uses a third less processor time on uvloop, which has no wheels for Windows.
    """
    open_closed_streams()
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def has_loop() -> bool:
    """Return whether this code runs in an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def in_later_turn(work: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
    """Return the work in a form that, made a task, begins in a later turn of the loop, as tasks usually do.

    If the program has a task factory, such as `asyncio.eager_task_factory`, tasks may begin at once: before the code
    that starts one has recorded it, and before others have added to its work.
    """
    return work if asyncio.get_running_loop().get_task_factory() is None else _in_next_turn(work)


async def _in_next_turn(work: Coroutine[Any, Any, R]) -> R:
    try:
        await asyncio.sleep(0)
    except BaseException:
        work.close()
        raise
    return await work


async def in_thread(call: Callable[P, R], *given: P.args, **options: P.kwargs) -> R:
    """Call a blocking function in a thread, and wait for it to end even if cancelled."""
    return await wait_to_its_end(asyncio.get_running_loop().run_in_executor(None, partial(call, *given, **options)))


async def wait_to_its_end(working: asyncio.Future[R]) -> R:
    """Wait for a thread's work, which goes on when the waiting task is cancelled, and wait for its end even then."""
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.exception()  # Marked as retrieved, so that asyncio does not warn: the cancelled caller gets no failure.
        raise


@contextmanager
def ended_by(end: Callable[[], None]) -> Iterator[None]:
    """Call `end` in the running loop at each SIGINT and SIGTERM during the block, and at the first SIGHUP.

    SIGHUP comes when the terminal is closed, and once more from its shell. It is only handled where it would otherwise
    kill this process: not if the program has a handler of its own, or was started by nohup.

    Afterwards the previous handlers are restored: uvloop would leave one behind under which Ctrl-C does nothing. They
    are also restored in a process that is forked meanwhile, such as by a task's `multiprocessing.Pool`: nothing runs in
    its copy of the loop to handle signals, and `Pool.terminate` would wait for ever. What such a process is told does
    not reach this one's loop either, by whose pipe Python would tell it of every signal that the process handles.

    Outside the main thread, which alone gets signals, nothing is handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    hangups = _hangups()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, *hangups)}

    def hang_up() -> None:
        # Keep it handled for now: without a handler the second SIGHUP would end the process.
        loop.add_signal_handler(hangups[0], lambda: None)
        end()

    for number in before:
        loop.add_signal_handler(number, hang_up if number in hangups else end)
    _before.update(before)
    try:
        yield
    finally:
        _before.clear()
        for number in before:
            loop.remove_signal_handler(number)
        _give_back(before)


def _give_back(before: Mapping[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        # None means that Python did not set it, and so can't restore it.
        if handler is not None:
            signal.signal(number, handler)


def _begin_copy() -> None:
    if _before:
        signal.set_wakeup_fd(-1)
        _give_back(_before)
        hear_interrupts()


def hear_interrupts() -> None:
    """Let SIGINT raise `KeyboardInterrupt` in this copy of a process, if it has the handler of `asyncio.Runner`.

    The first time, that one only cancels what the loop runs, and nothing runs in a copy of the loop.
    """
    call = getattr(signal.getsignal(signal.SIGINT), "func", None)
    if isinstance(getattr(call, "__self__", None), asyncio.Runner):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _hangups() -> list[signal.Signals]:
    number = getattr(signal, "SIGHUP", None)
    return [number] if number is not None and signal.getsignal(number) is signal.SIG_DFL else []


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_begin_copy)
