"""Threads of the system, and waiting for what they do, also where gevent has put greenlets in the place of threads.

There a `threading.Thread` is a greenlet of the thread that starts it. An event loop in it would be the running one of
all others too, as asyncio sees it: Django refuses their queries then, and `asyncio.run` refuses to begin another.
"""

import sys
import threading
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Running(Protocol):
    """A thread that was started."""

    def is_alive(self) -> bool:
        """Whether it runs."""

    def join(self) -> None:
        """Wait until it has ended."""


def start(target: Callable[[], object], *, name: str) -> Running:
    """Run `target` in a thread of its own, which does not keep the process alive."""
    if _has_greenlets():
        return _OfGevent(target)
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


class Pool(ThreadPoolExecutor):
    """What the event loop of such a thread has names resolved in: where Python's own threads do not do, in others.

    They take nothing more once the main thread has ended, though others may run on and functions of `atexit` are
    called. Among greenlets they are some of this very thread, and who waits at the exit for their end waits until
    something else happens in it: gunicorn's gevent workers took 20 s to stop.
    """

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Have it called in a thread of the pool, or else in one of its own."""
        if not _has_greenlets():
            with suppress(RuntimeError):
                return super().submit(fn, *args, **kwargs)
        return aside(partial(fn, *args, **kwargs), name="treadle-client-work")


def aside(call: Callable[[], R], *, name: str) -> Future[R]:
    """Call it in a thread of its own, which does not keep the process alive, and return what gets its outcome."""
    future: Future[R] = Future()
    threading.Thread(target=_settle, args=(future, call), name=name, daemon=True).start()
    return future


def _settle(future: Future[R], call: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    settle: Callable[[], None]
    try:
        settle = partial(future.set_result, call())
    except BaseException as error:  # noqa: BLE001 - handed to who waits for the outcome
        settle = partial(future.set_exception, error)
    # In a greenlet of the loop's own thread Python 3.14 takes the loop for the one that runs, and doesn't wake it.
    running = _get_running_loop()
    _set_running_loop(None)
    try:
        settle()
    finally:
        _set_running_loop(running)


def outcome(future: Future[R]) -> R:
    """Return or raise what another thread ends a future with, and block this thread, or greenlet, until then."""
    if not _has_greenlets():
        return future.result()
    from gevent import get_hub
    from gevent.event import Event

    done = Event()
    # The one thing of gevent's that another thread may touch; it keeps gevent's loop waiting, too.
    told = get_hub().loop.async_()
    told.start(done.set)
    future.add_done_callback(lambda _: told.send())
    try:
        if not future.done():
            done.wait()
        return future.result()
    finally:
        told.stop()


class _OfGevent:
    """A thread of the system's, in a pool of its own: the others have work that comes to an end."""

    def __init__(self, target: Callable[[], object]) -> None:
        from gevent.threadpool import ThreadPool

        self._ended: Any = ThreadPool(1).spawn(target)

    def is_alive(self) -> bool:
        return not self._ended.ready()

    def join(self) -> None:
        self._ended.wait()


def _has_greenlets() -> bool:
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and monkey.is_module_patched("threading")
