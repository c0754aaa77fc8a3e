"""How many bytes of bodies and messages the server has taken in, and is not done with, on all connections together."""

from treadle_server.errors import TooManyRequests

WHOLE = 8
"""How many of the largest bodies the server keeps at once: forty, half sent by holders of a token, took 0.7 GB."""

SMALL = 64 * 1024
"""Bytes that a body may have whatever the others have: uvicorn keeps as many of each connection."""


class Arriving:
    """What has arrived on all connections together, and how much may."""

    def __init__(self, largest: int) -> None:
        """`largest` is how many bytes one body may have."""
        self._most = WHOLE * largest
        self._size = 0

    def note(self, before: int, now: int, *, growing: int) -> None:
        """Take note that `now` bytes of a connection are kept, where there were `before`; `growing` of them still grow.

        Raises `TooManyRequests` when all keep too much, and what grows is not small.
        """
        self._size += now - before
        if now > before and growing > SMALL and self._size > self._most:
            raise TooManyRequests(
                f"the server has {self._size} bytes of requests under way, and takes large ones again when some of them"
                " are done; try again",
                retry_after=1,
            )
