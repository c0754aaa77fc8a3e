"""How many bytes of bodies and messages the server has taken in, and is not done with, on all connections together."""

from typing import Self

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


class Body:
    """The bytes of one request's body, from the first one until the block ends, in which it is answered."""

    def __init__(self, arriving: Arriving) -> None:
        self._arriving = arriving
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._arriving.note(self._size, 0, growing=0)

    def grow(self, size: int) -> None:
        """Take note that it has so many bytes by now. Raises `TooManyRequests` when all together have too many."""
        before, self._size = self._size, size
        self._arriving.note(before, size, growing=size)
