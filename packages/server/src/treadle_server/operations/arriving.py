"""Counts the bytes of requests that the server has received and not finished, on all connections together."""

from treadle_server.errors import TooManyRequests

WHOLE = 8
"""How many bodies of the largest size may be in memory at once: forty half-sent ones, all with a token, took 0.7 GB."""

SMALL = 64 * 1024
"""Bytes that a body may always have: uvicorn buffers as many for each connection anyway."""


class Arriving:
    """The bytes received on all connections together, and their limit."""

    def __init__(self, largest: int) -> None:
        """`largest` is the limit of one body, in bytes."""
        self._most = WHOLE * largest
        self._size = 0

    def note(self, before: int, now: int, *, growing: int) -> None:
        """Note that a connection keeps `now` bytes instead of `before`; `growing` of them are of an unfinished message.

        Raises `TooManyRequests` if all connections keep too much and the unfinished message is not small.
        """
        self._size += now - before
        if now > before and growing > SMALL and self._size > self._most:
            raise TooManyRequests(
                f"the server is handling {self._size} bytes of requests, and takes large ones again when some of them"
                " are done; try again",
                retry_after=1,
            )
