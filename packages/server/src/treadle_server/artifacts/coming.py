"""The incoming pieces of an upload, each with a time limit."""

import asyncio
from collections.abc import AsyncIterator

from treadle_server.errors import StoreUnavailable, ValidationFailed

SILENCE = 60.0
"""Seconds within which the next piece must come, because a stalled upload takes room from others."""


class ComingPieces:
    """The incoming pieces of one upload."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._limit: asyncio.Timeout | None = None
        self._is_stopped = False

    async def next(self) -> bytes | None:
        """Return the next piece, or None after the last one.

        Raises what the pieces raise, `ValidationFailed` when none comes in time, and `StoreUnavailable` after `stop`.
        """
        try:
            async with asyncio.timeout(0 if self._is_stopped else SILENCE) as self._limit:
                return await anext(self._pieces, None)
        except TimeoutError:
            if self._is_stopped:
                raise StoreUnavailable("the server is shutting down: upload it again") from None
            raise ValidationFailed(f"nothing was received for {SILENCE:.0f} s: upload it again") from None
        finally:
            self._limit = None

    def stop(self) -> None:
        """End the upload: the present or next call of `next` raises an error."""
        self._is_stopped = True
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())
