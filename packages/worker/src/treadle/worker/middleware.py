"""Middleware: what a worker puts around each run, `Worker(middleware=[…])`."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from treadle.tasks.context import Context
from treadle.tasks.endings import Ending

CallNext = Callable[[], Awaitable[Any]]
"""Calls what comes next, the function itself in the end; gives its result as it is kept, in JSON."""

Middleware = Callable[[Context, CallNext], Awaitable[Any]]
"""`async def m(ctx, call_next)`: whatever it returns is the run's result, and what it raises the run's error."""


class RaisedInProcess(Exception):
    """What the code of a run in a child process raised, for the middleware in the worker; its text is the error's."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending.get("error") or ending.get("detail") or ending["kind"]))
        self.traceback: str | None = ending.get("traceback")
        """The traceback in the child process."""


def chained(middleware: Sequence[Middleware], context: Context, innermost: CallNext) -> CallNext:
    """Return what calls the first of them, and so on to the innermost."""
    call = innermost
    for one in reversed(middleware):
        call = partial(one, context, call)
    return call
