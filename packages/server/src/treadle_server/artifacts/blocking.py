"""What comes asynchronously, for a thread that blocks for it: how a request's body gets into a store."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Iterator

from treadle_server.errors import ValidationFailed

SILENCE = 60.0
"""Seconds within which something more must come: an upload that stands still keeps a thread."""


class Stopped(Exception):
    """Nobody waits for the upload any more."""


class BlockingPieces(Iterator[bytes]):
    """Pieces of an upload; each is asked for in the loop in which the feed was made."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._loop = asyncio.get_running_loop()
        self._asked: concurrent.futures.Future[bytes | None] | None = None
        self._is_stopped = False

    def __next__(self) -> bytes:
        """Wait for the next piece, in a thread. Raises what the pieces raise, `ValidationFailed` and `Stopped`."""
        if self._is_stopped:
            raise Stopped
        self._asked = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
        try:
            piece = self._asked.result()
        except concurrent.futures.CancelledError:
            raise Stopped from None
        if piece is None:
            raise StopIteration
        return piece

    async def _next(self) -> bytes | None:
        if self._is_stopped:
            raise Stopped
        try:
            async with asyncio.timeout(SILENCE):
                return await anext(self._pieces, None)
        except TimeoutError:
            raise ValidationFailed(f"nothing more came for {SILENCE:.0f} s: put it again") from None

    def stop(self) -> None:
        """End the upload, in the loop: the thread's next piece, or the one that it waits for, is an error."""
        self._is_stopped = True
        if self._asked is not None:
            self._asked.cancel()
