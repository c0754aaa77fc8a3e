"""Shares of the connections that read: however much one user asks for, a connection is left for everybody else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from treadle_server.errors import TooManyRequests

WAIT = 30.0
"""Seconds that a read waits for those of the same user at most: as long as the pool's own wait for a connection."""

_asker: ContextVar[str | None] = ContextVar("asker", default=None)


@contextmanager
def asking(user: str) -> Iterator[None]:
    """Count what is read during the block as read for the user; without, as for the server itself."""
    token = _asker.set(user)
    try:
        yield
    finally:
        _asker.reset(token)


@dataclass(slots=True)
class _Share:
    places: asyncio.Semaphore
    reads: int = 0
    """Reads that have a place or wait for one."""


@dataclass(slots=True)
class ReaderShares:
    """Lets each user have `most` connections at once; the reads behind them wait outside of the pool's queue.

    Two hundred `GET /v1/tasks?text=…` at once took all four connections, and others' reads waited behind all of them.
    """

    most: int
    _shares: dict[str, _Share] = field(default_factory=dict)
    """Of the users that read at the moment."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place among the reads of the user who asks. Raises `TooManyRequests` after `WAIT` seconds."""
        if (user := _asker.get()) is None:
            yield
            return
        share = self._shares.setdefault(user, _Share(asyncio.Semaphore(self.most)))
        share.reads += 1
        try:
            await self._acquire(share)
            try:
                yield
            finally:
                share.places.release()
        finally:
            share.reads -= 1
            if not share.reads:
                del self._shares[user]

    async def _acquire(self, share: _Share) -> None:
        if not share.places.locked():
            # Without a timer: nearly every read comes here.
            await share.places.acquire()
            return
        try:
            async with asyncio.timeout(WAIT):
                await share.places.acquire()
        except TimeoutError:
            ahead = f"{share.reads} of your reads are under way or waiting"
            raise TooManyRequests(f"{ahead}: send fewer at once, and try again soon", retry_after=1) from None
