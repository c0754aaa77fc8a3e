"""System threads, and waiting for their results, even where gevent has replaced threads by greenlets.

There a `threading.Thread` is a greenlet of the thread that starts it. To asyncio, an event loop in it would seem to run
in all the thread's other greenlets too: Django would refuse their queries, and `asyncio.run` would refuse to start
another loop.
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
        """Whether it is running."""

    def join(self) -> None:
        """Wait until it has ended."""


def start(target: Callable[[], object], *, name: str) -> Running:
    """Run `target` in a thread of its own, which does not keep the process alive."""
    if has_greenlets():
        return _OfGevent(target)
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


class Pool(ThreadPoolExecutor):
    """The executor in which such a thread's event loop resolves names, with a fallback where Python's pool won't do.

    Python's pools accept nothing once the main thread has ended, though other threads and `atexit` functions may still
    run. Under gevent, a pool's threads are greenlets of this very thread, and waiting for them at the exit takes until
    something else happens in it: gunicorn's gevent workers took 20 s to stop.
    """

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call it in a thread of the pool, or else in one of its own."""
        if not has_greenlets():
            with suppress(RuntimeError):
                return super().submit(fn, *args, **kwargs)
        return aside(partial(fn, *args, **kwargs), name="treadle-client-work")


def aside(call: Callable[[], R], *, name: str) -> Future[R]:
    """Call it in a thread of its own, which does not keep the process alive, and return the future of its outcome."""
    future: Future[R] = Future()
    threading.Thread(target=_settle, args=(future, call), name=name, daemon=True).start()
    return future


def _settle(future: Future[R], call: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    settle: Callable[[], None]
    try:
        settle = partial(future.set_result, call())
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the outcome
        settle = partial(future.set_exception, error)
    # In a greenlet of the loop's own thread Python 3.14 believes that it runs in the loop, and doesn't wake it.
    running = _get_running_loop()
    _set_running_loop(None)
    try:
        settle()
    finally:
        _set_running_loop(running)


def outcome(future: Future[R]) -> R:
    """Return or raise the outcome of a future that another thread completes; blocks this thread or greenlet."""
    if not has_greenlets():
        return future.result()
    from gevent import get_hub
    from gevent.event import Event

    done = Event()
    # The only part of gevent that another thread may touch; it also keeps gevent's loop waiting.
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
    """A system thread in a pool of its own, as the shared pools are for work that comes to an end."""

    def __init__(self, target: Callable[[], object]) -> None:
        from gevent.threadpool import ThreadPool

        self._ended: Any = ThreadPool(1).spawn(target)

    def is_alive(self) -> bool:
        return not self._ended.ready()

    def join(self) -> None:
        self._ended.wait()


def has_greenlets() -> bool:
    """Return whether gevent has replaced threads by greenlets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and monkey.is_module_patched("threading")
