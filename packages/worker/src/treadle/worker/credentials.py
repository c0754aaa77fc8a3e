"""The temporary credential of a run, which its code sends to the server; it is requested when needed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from treadle.clock import monotonic
from treadle.errors import ConnectionFailed
from treadle.tasks.awaitables import Credential
from treadle.transport.retries import delays
from treadle.worker.lease import Held

if TYPE_CHECKING:
    import httpx

Reclaim = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Renews the lease of a run and returns it with fresh credentials, as the socket's `reclaim` does."""


class Credentials:
    """The credentials of the runs that a worker holds; `urls` are the servers for which they are valid.

    `transport` is used instead of the network, if given.
    """

    def __init__(
        self,
        reclaim: Reclaim,
        online: asyncio.Event,
        urls: tuple[str, ...],
        *,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        self._reclaim = reclaim
        self._online = online
        self.urls = urls
        self.transport = transport

    async def of(self, held: Held) -> Credential:
        """Return a credential that is valid for at least another half lease, unless the lease itself ends before.

        Waits while the server is away. Raises `StaleRun` when the run is no longer the worker's, and another
        `ProblemError` when the server refuses.
        """
        if held.credential is None or monotonic() >= held.credential[1]:
            asked, answer = await self._ask(held)
            held.credential = (answer["credentials"], asked + answer["seconds_left"] / 2)
        return Credential(held.credential[0])

    async def _ask(self, held: Held) -> tuple[float, dict[str, Any]]:
        for delay in delays():
            await self._online.wait()
            asked = monotonic()
            try:
                return asked, await self._reclaim(held.ref)
            except ConnectionFailed:
                # The worker is opened again, and `online` set again, before the next attempt.
                await asyncio.sleep(delay)
        raise AssertionError("the delays never end")
