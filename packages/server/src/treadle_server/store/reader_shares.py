"""Share the read connections fairly: however much one user asks for, a connection is left for everybody else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from treadle_server.errors import TooManyRequests

WAIT = 30.0
"""Seconds for which a read waits for other reads of the same user at most: as long as the pool's own timeout."""

_asker: ContextVar[str | None] = ContextVar("asker", default=None)


@contextmanager
def asking(user: str) -> Iterator[None]:
    """Count reads in the block as the user's; reads outside of such a block are the server's own."""
    token = _asker.set(user)
    try:
        yield
    finally:
        _asker.reset(token)


@dataclass(slots=True)
class _Share:
    places: asyncio.Semaphore
    reads: int = 0
    """Reads that hold a place or wait for one."""


@dataclass(slots=True)
class ReaderShares:
    """Limits each user to `most` connections at once; further reads wait outside the pool's queue.

    Without it two hundred `GET /v1/tasks?text=…` at once took all four connections, and everybody's reads waited behind
    them.
    """

    most: int
    _shares: dict[str, _Share] = field(default_factory=dict)
    """The users who are reading at the moment."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for one of the current user's places. Raises `TooManyRequests` after `WAIT` seconds."""
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
            # The common case, without the cost of a timer.
            await share.places.acquire()
            return
        try:
            async with asyncio.timeout(WAIT):
                await share.places.acquire()
        except TimeoutError:
            ahead = f"{share.reads} of your reads are under way or waiting"
            raise TooManyRequests(f"{ahead}: send fewer at once, and try again soon", retry_after=1) from None
