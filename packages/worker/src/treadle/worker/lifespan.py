"""A worker's lifespan: what its tasks share, made before it opens and closed after its last run, or cut short."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any

from treadle.errors import DefinitionError
from treadle.tasks.signature import signature_of
from treadle.values import brief
from treadle.worker.config import Lifespan

LAST_WORK = 5.0
"""Seconds that the lifespan has for closing after the worker was told a second time to end."""


_HOW = "a function without arguments: an async function that yields once, decorated with @asynccontextmanager"


def checked(lifespan: Lifespan | None) -> Lifespan | None:
    """Return a worker's lifespan. Raises `DefinitionError` for anything that can't be called for one."""
    if isinstance(lifespan, AbstractAsyncContextManager):
        raise DefinitionError(
            "the lifespan has already been called: pass the function itself, as in Worker(…, lifespan=lifespan)"
        )
    if lifespan is None:
        return None
    if not callable(lifespan):
        raise DefinitionError(f"lifespan must be {_HOW}, not {brief(lifespan)}")
    try:
        signature_of(lifespan).bind()
    except TypeError:
        raise DefinitionError(f"lifespan must be {_HOW}: {brief(lifespan)} takes arguments") from None
    except ValueError:
        # Written in C, without a readable signature.
        return lifespan
    return lifespan


class LifespanCut(Exception):
    """The lifespan was cancelled, because the worker is to end."""


class Cuttable(AbstractAsyncContextManager[Any]):
    """A lifespan whose start is cancelled when `stops` is set, and its end `LAST_WORK` seconds after `hurries` is.

    Both raise `LifespanCut` then. Each runs in the task that awaits it, as cancel scopes have to be left where they
    were entered.
    """

    def __init__(self, manager: AbstractAsyncContextManager[Any], stops: asyncio.Event, hurries: asyncio.Event) -> None:
        self._manager = manager
        self._stops = stops
        self._hurries = hurries

    async def __aenter__(self) -> Any:
        async with _cut_by(self._stops, 0):
            return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        async with _cut_by(self._hurries, LAST_WORK):
            return await self._manager.__aexit__(kind, error, trace)


@asynccontextmanager
async def _cut_by(event: asyncio.Event, patience: float) -> AsyncIterator[None]:
    watching = asyncio.ensure_future(event.wait())
    try:
        async with asyncio.timeout(None) as limit:
            loop = asyncio.get_running_loop()
            watching.add_done_callback(cut := lambda _: limit.reschedule(loop.time() + patience))
            try:
                yield
            finally:
                watching.remove_done_callback(cut)
                watching.cancel()
    except TimeoutError:
        if not limit.expired():
            raise
        raise LifespanCut from None
