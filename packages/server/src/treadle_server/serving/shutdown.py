"""Cuts off unfinished requests when a stopping server waits no longer: with an answer, without a traceback."""

import asyncio
import logging
from collections.abc import Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from treadle_server.access.trust import drop
from treadle_server.api.problems import problem_response
from treadle_server.errors import StoreUnavailable

log = logging.getLogger(__name__)

LONGEST = 1.0
"""Seconds that requests may take to end after they are cut off."""

UNDONE = "the server stopped before it answered, so this may or may not have been done: check before you try again"


class Shutdown:
    """Wraps the application; requests that `cut_off` cancels are answered that the server has stopped.

    uvicorn takes its own cancellation of a request for an error of the application, and logs its traceback.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application."""
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send if scope["type"] == "lifespan" else noted)
        except asyncio.CancelledError:
            if not self._is_over or scope["type"] == "lifespan":
                raise
            log.warning("%s was not finished when the server had to stop", scope.get("path"))
            if scope["type"] == "http" and not has_begun:
                await problem_response(StoreUnavailable(UNDONE, retry_after=1), Request(scope))(scope, receive, send)
            else:
                await _drop(scope, receive)

    async def cut_off(self, tasks: Iterable["asyncio.Task[None]"]) -> None:
        """Cancel these requests and sessions."""
        self._is_over = True
        left = list(tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=LONGEST)


async def _drop(scope: Scope, receive: Receive) -> None:
    """Close the connection in the middle of its answer. Raises `ClientDisconnected` for a websocket."""
    drop(scope)
    if scope["type"] == "websocket":
        raise ClientDisconnected
    while (await receive())["type"] != "http.disconnect":
        pass
