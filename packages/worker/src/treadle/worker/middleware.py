"""Middleware: functions that a worker wraps around each run, `Worker(middleware=[…])`."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from treadle.errors import DefinitionError
from treadle.tasks.context import Context
from treadle.tasks.endings import Ending
from treadle.tasks.signature import signature_of
from treadle.values import brief

CallNext = Callable[[], Awaitable[Any]]
"""Calls the next middleware or, in the end, the task's function; returns its result as it is kept, in JSON."""

Middleware = Callable[[Context, CallNext], Awaitable[Any]]
"""`async def m(ctx, call_next)`: its return value is the run's result, and what it raises is the run's error."""


_HOW = "such as async def m(ctx, call_next): return await call_next()"


class RaisedInProcess(Exception):
    """The exception of a run in a child process, as the middleware in the worker sees it; its text is the error's."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending.get("error") or ending.get("detail") or ending["kind"]))
        self.traceback: str | None = ending.get("traceback")
        """The traceback in the child process."""


def checked(middleware: object) -> tuple[Middleware, ...]:
    """Return a worker's middleware. Raises `DefinitionError` for anything that can't wrap a run."""
    if not isinstance(middleware, Iterable) or isinstance(middleware, str | bytes | Mapping):
        raise DefinitionError(f"middleware must be a list of functions, {_HOW}, not {brief(middleware)}")
    found = tuple(middleware)
    for one in found:
        if why := _unfit(one):
            raise DefinitionError(f"middleware: {brief(one)} {why}: write a function {_HOW}")
    return found


def _unfit(one: object) -> str | None:
    """Return why it can't be called with a context and `call_next`, and awaited; None when it seems that it can."""
    if not callable(one) or isinstance(one, type):
        return "is not a function"
    if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
        return "is a generator, and nothing would run the code after its yield"
    try:
        signature_of(one).bind(None, None)
    except TypeError:
        return "can't be called with a context and call_next"
    except ValueError:
        # Written in C, without a readable signature.
        return None
    return None


def chained(middleware: Sequence[Middleware], context: Context, innermost: CallNext) -> CallNext:
    """Return a call of the first middleware, which calls the next, and so on to the innermost call."""
    call = innermost
    for one in reversed(middleware):
        call = partial(one, context, call)
    return call
