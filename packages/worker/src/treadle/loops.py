"""Which loop runs a process that is Treadle's own, what signals do there, and how tasks and threads go in any loop."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from treadle.standard_files import open_what_is_closed

P = ParamSpec("P")
R = TypeVar("R")

_before: dict[signal.Signals, Any] = {}
"""What the signals did that are handled now."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop, for `asyncio.Runner`; None stands for asyncio's own.

    A worker of short tasks spends a third less processor time on uvloop. It has no wheels for Windows.
    """
    open_what_is_closed()
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def has_loop() -> bool:
    """Return whether this is async code."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def in_turn(work: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
    """Return the work as it is to be made a task of, so that it begins in a later turn of the loop, as tasks do.

    Where the program has a task factory, as `asyncio.eager_task_factory`, they may begin on the spot: before whoever
    begins one has noted it, and before others have joined what it is to do.
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
    """Call what blocks in a thread, and see it end whatever comes."""
    return await seen_through(asyncio.get_running_loop().run_in_executor(None, partial(call, *given, **options)))


async def seen_through(working: asyncio.Future[R]) -> R:
    """Wait for what a thread does, which goes on when who waits is cancelled: then it is waited for all the same."""
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.exception()  # Read once: who is cancelled is told no failure, and nobody is to be warned of it.
        raise


@contextmanager
def ended_by(end: Callable[[], None]) -> Iterator[None]:
    """Call `end` in the running loop at each SIGINT and SIGTERM during the block, and at the first SIGHUP.

    That one comes when the terminal is closed, and once more from its shell. It is left alone where it would not end
    this process on the spot, as if it were killed: a program has a handler of its own, or was started by nohup.

    Afterwards they do what they did before: uvloop leaves a handler of its own behind, at which Ctrl-C does nothing any
    more. So they do in a process that is forked meanwhile, as by a `multiprocessing.Pool` of a task: in its copy of the
    loop nothing runs that would hear them, and what `Pool.terminate` waits for would not end.

    Outside of the main thread, which alone gets signals, nothing is handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    hangups = _hangups()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, *hangups)}

    def hang_up() -> None:
        # Not given back to the system yet, where the second one would end the process.
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
        # None: it was not set by Python, and can't be set from there.
        if handler is not None:
            signal.signal(number, handler)


def _hangups() -> list[signal.Signals]:
    number = getattr(signal, "SIGHUP", None)
    return [number] if number is not None and signal.getsignal(number) is signal.SIG_DFL else []


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=lambda: _give_back(_before))
