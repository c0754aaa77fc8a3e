"""A group of independent tasks: an error in one of them is logged, and ends none of the others."""

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

from treadle.loops import in_later_turn

log = logging.getLogger("treadle.worker")

T = TypeVar("T")


class GuardedGroup(asyncio.TaskGroup):
    """A task group for a worker's services: a bug in one of them must not take the runs and their reports down."""

    def create_task(  # type: ignore[override]  # errors are logged here, and None is returned
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T | None]":
        """Start a task which, if `coro` raises an `Exception`, logs it and returns None."""
        return super().create_task(in_later_turn(_guarded(coro)), name=name, context=context)


async def _guarded(work: Coroutine[Any, Any, T]) -> T | None:
    try:
        return await work
    except Exception:
        log.exception("a part of the worker failed because of a bug; the rest keeps running")
        return None
