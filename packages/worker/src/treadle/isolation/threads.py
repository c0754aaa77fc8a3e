"""Synchronous functions in daemon threads of their own, so that one that never ends can't keep the worker alive."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from treadle.tasks.outcomes import Intermittent, Suspend
from treadle.tasks.verdicts import legible
from treadle.values import brief, said_by


def call_in_thread(function: Callable[[], Any], name: str) -> "asyncio.Future[Any]":
    """Run `function` in a new thread; the future gets what it returns or raises, SystemExit included.

    Cancelling the future doesn't stop the thread: nothing can. There are no more threads than the worker's concurrency,
    and starting one takes some 50 microseconds, too little for a pool to be worthwhile.

    Raises `Lacking` if the system can't start one.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except BaseException as raised:  # noqa: BLE001 - whatever the task raised is reported as its end
            # A future refuses StopIteration, and SystemExit would end the event loop.
            raised = legible(raised)
            is_ordinary = isinstance(raised, Exception | Suspend) and not isinstance(raised, StopIteration)
            error = raised if is_ordinary else CodeExit(raised)
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:
            # The worker is gone: nobody waits for the result, and the server requeues the task.
            return

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:
        raise lacking("a thread", said_by(error)) from error
    return future


class Lacking(Intermittent):
    """A run's code could not begin because this machine lacks resources, which it, or another one, may have later."""


def lacking(what: str, why: str, *, is_short: bool = True) -> Lacking:
    """Return the error for a thread or process that the system could not start; `why` is the system's message.

    `is_short` says that it has too few, rather than, for instance, that Python is no longer where it was.
    """
    advice = ": raise its limits (`ulimit`), or lower its concurrency" if is_short else ""
    return Lacking(f"the worker could not start {what} for the task ({why}){advice}")


class CodeExit(Exception):
    """Wraps an exception of a task that is not an ordinary one, such as SystemExit."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"the task raised {brief(cause)}")
        self.cause = cause
