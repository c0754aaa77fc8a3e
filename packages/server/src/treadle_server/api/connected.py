"""Waits that end when the client closes its connection."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.requests import Request

from treadle_server.errors import StoreUnavailable

T = TypeVar("T")

CLOSING_SECONDS = 0.5
"""How long a waiting request may still take to answer when the server shuts down."""


class ClientGone(Exception):
    """The client closed the connection while its request waited."""


async def while_connected(
    request: Request, work: Awaitable[T], closing: asyncio.Event, invalid: Awaitable[None] | None = None
) -> T:
    """Return what `work` returns; cancel it if the request can't be answered any more.

    Raises `ClientGone` if the client closes the connection, `StoreUnavailable` if the server shuts down, and what
    `invalid` raises, which waits until the client's token is no longer valid.
    """

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    worker = asyncio.ensure_future(work)
    watcher, closer = asyncio.ensure_future(watch()), asyncio.ensure_future(closing.wait())
    parts: set[asyncio.Future[Any]] = {worker, watcher, closer}
    ender = None if invalid is None else asyncio.ensure_future(invalid)
    if ender is not None:
        parts.add(ender)
    try:
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        if not worker.done() and closer.done():
            # Give the work a moment to answer by itself.
            await asyncio.wait({worker}, timeout=CLOSING_SECONDS)
        if worker.done():
            return worker.result()
        if watcher.done():
            raise ClientGone
        if ender is not None and ender.done():
            ender.result()
        raise StoreUnavailable("the server is going away; try again", retry_after=1)
    finally:
        for part in parts:
            part.cancel()
        await asyncio.wait(parts)
