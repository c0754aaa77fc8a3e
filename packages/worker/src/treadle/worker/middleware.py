"""Middleware: what a worker puts around each run, `Worker(middleware=[…])`."""

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
"""Calls what comes next, the function itself in the end; gives its result as it is kept, in JSON."""

Middleware = Callable[[Context, CallNext], Awaitable[Any]]
"""`async def m(ctx, call_next)`: whatever it returns is the run's result, and what it raises the run's error."""


_HOW = "as async def m(ctx, call_next): return await call_next()"


class RaisedInProcess(Exception):
    """What the code of a run in a child process raised, for the middleware in the worker; its text is the error's."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending.get("error") or ending.get("detail") or ending["kind"]))
        self.traceback: str | None = ending.get("traceback")
        """The traceback in the child process."""


def checked(middleware: object) -> tuple[Middleware, ...]:
    """Return what a worker was given as its middleware. Raises `DefinitionError` for what can't be put around a run."""
    if not isinstance(middleware, Iterable) or isinstance(middleware, str | bytes | Mapping):
        raise DefinitionError(f"middleware is a list of functions, {_HOW}, not {brief(middleware)}")
    found = tuple(middleware)
    for one in found:
        if why := _unfit(one):
            raise DefinitionError(f"middleware: {brief(one)} {why}: write a function {_HOW}")
    return found


def _unfit(one: object) -> str | None:
    """Return why it can't be called with a context and `call_next`, and awaited; None when it seems that it can."""
    if not callable(one) or isinstance(one, type):
        return "is no function"
    if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
        return "yields, and nothing goes on behind a yield"
    try:
        signature_of(one).bind(None, None)
    except TypeError:
        return "can't be called with a context and call_next"
    except ValueError:
        # Written in C, and does not say what it takes.
        return None
    return None


def chained(middleware: Sequence[Middleware], context: Context, innermost: CallNext) -> CallNext:
    """Return what calls the first of them, and so on to the innermost."""
    call = innermost
    for one in reversed(middleware):
        call = partial(one, context, call)
    return call
