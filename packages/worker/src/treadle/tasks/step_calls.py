"""Calls of steps' functions: their names, calling them with a timeout, and the types of their results."""

import asyncio
import contextvars
import functools
import inspect
import threading
import typing
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from treadle.errors import InvalidStep
from treadle.tasks.returned import Returned
from treadle.values import brief
from treadle.wire.amounts import in_seconds
from treadle.wire.fields import LONGEST_TEXT


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's name without its module, which differs in a child process, and may change."""
    bare = _bare(function)
    return str(getattr(bare, "__qualname__", type(bare).__qualname__))[-LONGEST_TEXT:]


def check_function(step: str, function: object) -> None:
    """Raise `InvalidStep` for anything that can't be called, most often because it already was."""
    if callable(function):
        return
    if inspect.iscoroutine(function):
        function.close()  # nobody will await it
    raise InvalidStep(
        f"step {step!r}: give the function that the step calls, followed by its arguments, as in"
        f" ctx.step({step!r}, charge, order), not {function!r:.100}"
    )


async def run(
    step: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    timeout: float | None,  # noqa: ASYNC109 - the step's own
    *,
    in_loop: bool,
    threads: "set[Future[Any]]",
) -> Any:
    """Call a step's function; in a thread if it is synchronous and its task is async, or it has a timeout.

    A thread can't be stopped: what it returns after its timeout is dropped, and it is in `threads` while it runs.
    Raises what the function raises, `TimeoutError` with a message, and `InvalidStep` for an async function in a
    synchronous task.
    """
    is_async = _is_async(function)
    if in_loop:
        if is_async:
            return await _in_time(step, function(*args), timeout)
        return await _in_time(step, asyncio.wrap_future(_aside(lambda: function(*args), step, threads)), timeout)
    if is_async:
        raise InvalidStep(f"step {step!r} calls an async function, but its task is not async: make the task async")
    if timeout is None:
        return function(*args)
    aside = _aside(lambda: function(*args), step, threads)
    try:
        return aside.result(timeout)
    except TimeoutError as error:
        if aside.done():
            raise
        raise TimeoutError(_late(step, timeout)) from error


async def _in_time(step: str, called: Awaitable[Any], timeout: float | None) -> Any:  # noqa: ASYNC109
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await called
    except TimeoutError as error:
        if timeout is not None and limit.expired():
            raise TimeoutError(_late(step, timeout)) from error
        raise


def _late(step: str, timeout: float) -> str:
    return f"step {step!r} took longer than its timeout of {in_seconds(timeout)}"


def _aside(call: Callable[[], Any], step: str, threads: "set[Future[Any]]") -> "Future[Any]":
    """Call it in a daemon thread, which is in `threads` until it ends and doesn't keep the process from exiting."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(call)
        except (StopIteration, GeneratorExit) as error:
            # A future refuses StopIteration, and GeneratorExit would end every coroutine that awaits it, up to the
            # worker's.
            future.set_exception(RuntimeError(f"step {step!r} raised {brief(error)}"))
        except BaseException as error:  # noqa: BLE001 - raised again where the function was called
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name=f"treadle-step-{step}", daemon=True).start()
    threads.add(future)
    future.add_done_callback(threads.discard)
    return future


def returned(function: Callable[..., Any]) -> Returned:
    """Return the type of a step function's result."""
    bare = _bare(function)
    try:
        return _returned(bare)
    except TypeError:
        # An unhashable function can't be cached.
        return Returned()


@functools.lru_cache(maxsize=512)
def _returned(function: Callable[..., Any]) -> Returned:
    called = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004
    try:
        return Returned(typing.get_type_hints(called, include_extras=True).get("return", Any))
    except Exception:  # noqa: BLE001 - the annotation is evaluated, and may raise anything
        return Returned()


def _is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call has to be awaited: an async function, even decorated, or an object with an async call."""
    called = _without_arguments(function)
    return inspect.iscoroutinefunction(_bare(called)) or inspect.iscoroutinefunction(type(called).__call__)


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    # A task stands for its function.
    called = _without_arguments(function)
    bare: Callable[..., Any] = inspect.unwrap(getattr(called, "function", called))
    return bare


def _without_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function
