"""Coalesces separate callers, so that all of them proceed together."""

import asyncio


class Pace:
    """Lets a caller pass at once after a quiet time, otherwise all callers together, `seconds` after the last."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = float("-inf")
        self._gate: asyncio.Event | None = None

    async def turn(self) -> None:
        """Wait for the next time to pass."""
        if self._gate is None:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._last + self._seconds:
                self._last = loop.time()
                return
            self._gate = asyncio.Event()
            loop.call_at(self._last + self._seconds, self._open)
        await self._gate.wait()

    def _open(self) -> None:
        if self._gate is not None:
            self._last = asyncio.get_running_loop().time()
            self._gate.set()
            self._gate = None
