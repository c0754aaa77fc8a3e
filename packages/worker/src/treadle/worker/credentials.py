"""The temporary credential of a run, which its code sends to the server; it is requested when needed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from treadle.clock import monotonic
from treadle.errors import NOT_NOW, ConnectionFailed
from treadle.tasks.awaitables import Credential
from treadle.transport.answers import reading
from treadle.transport.retries import QuietLog, delays
from treadle.worker.lease import Held, log

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
            held.credential = await self._ask(held)
        return Credential(held.credential[0])

    async def _ask(self, held: Held) -> tuple[str, float]:
        """Return a fresh credential, and until when to use it."""
        quiet = QuietLog(log)
        for delay in delays():
            await self._online.wait()
            asked = monotonic()
            try:
                answer = await self._reclaim(held.ref)
                with reading():
                    return str(answer["credentials"]), asked + answer["seconds_left"] / 2
            except (ConnectionFailed, *NOT_NOW) as error:
                if self._online.is_set():
                    quiet.say(f"a credential could not be had yet: {error}", "trying again")
                # Otherwise the worker is opened again, and `online` set again, before the next attempt.
                await asyncio.sleep(delay)
        raise AssertionError("the delays never end")
