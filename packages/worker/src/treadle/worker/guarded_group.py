"""Tasks that live and die by themselves: what one of them raises is told, and ends none of the others."""

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

from treadle.loops import in_turn

log = logging.getLogger("treadle.worker")

T = TypeVar("T")


class GuardedGroup(asyncio.TaskGroup):
    """A task group for what serves a worker: a defect in one place must not take its runs, and their reports, along."""

    def create_task(  # type: ignore[override]  # what is raised is logged here, and None returned
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T | None]":
        """Begin a task which, where `coro` raises an `Exception`, logs it and returns None."""
        return super().create_task(in_turn(_guarded(coro)), name=name, context=context)


async def _guarded(work: Coroutine[Any, Any, T]) -> T | None:
    try:
        return await work
    except Exception:
        log.exception("a part of the worker hit a defect; the rest goes on")
        return None
