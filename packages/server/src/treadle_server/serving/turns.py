"""Lets connections take turns in parsing, so that one with a flood of small requests does not block the others."""

from asyncio import AbstractEventLoop, Handle, Transport
from collections import deque
from time import perf_counter
from typing import Any

PIECE = 2 * 1024
"""Bytes that are parsed at once: 300 of the smallest frames, about 2 ms of work."""

TURN_SECONDS = 0.002
"""How long all connections together may parse in one round of the loop.

When twenty sockets full of pings had 5 ms each in every round, another client's submit, which takes ten rounds, waited
for 1.5 s.
"""


class Turns:
    """The connections that have something to parse, in the order of their turns."""

    def __init__(self) -> None:
        self._waiting: deque[InTurns] = deque()
        self._next: Handle | None = None
        self._until: float | None = None
        """Until when bytes are parsed at once in this round of the loop; None before any have come in it."""

    def at_once(self, loop: AbstractEventLoop) -> float | None:
        """Return until when new bytes may be parsed at once; None if they have to wait for a turn."""
        now = perf_counter()
        if self._until is None:
            self._until = now + TURN_SECONDS
            loop.call_soon(self._begin_round)
        return self._until if now < self._until else None

    def _begin_round(self) -> None:
        self._until = None

    def wait(self, connection: "InTurns") -> None:
        """Give the connection a turn, after those that are waiting already."""
        self._waiting.append(connection)
        if self._next is None:
            self._next = connection.loop.call_soon(self._take, connection.loop)

    def _take(self, loop: AbstractEventLoop) -> None:
        end = perf_counter() + TURN_SECONDS
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft().take_turn(end)
                if perf_counter() >= end:
                    break
        finally:
            self._next = loop.call_soon(self._take, loop) if self._waiting else None


class InTurns:
    """A connection whose bytes are parsed piece by piece, as long as there is room for the requests in them.

    uvloop reads up to 8 MB at once: a million empty frames, or 250,000 requests. Parsed at once, those of a single
    connection without a token held the loop for 6.8 s, and kept a GB of requests that were not started.
    """

    transport: Transport
    loop: AbstractEventLoop

    def __init__(self, *arguments: Any, turns: Turns, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._turns = turns
        self._came = bytearray()
        """Bytes that are not parsed yet: at most one read of the loop, as reading pauses meanwhile."""
        self._waits = False
        """Whether it is waiting for a turn."""

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, or as many of them as there is time and room for."""
        end = None if self._waits else self._turns.at_once(self.loop)
        if end is None:
            self._came += data
            self.transport.pause_reading()
            self.take_turn_soon()
        elif not self._came and len(data) <= PIECE and self._has_place():
            self._parse(data)
        else:
            self._came += data
            self._parse_until(end)

    def take_turn_soon(self) -> None:
        """Take a turn, to continue parsing, or reading if nothing is left to parse."""
        if not self._waits:
            self._waits = True
            self._turns.wait(self)

    def take_turn(self, end: float) -> None:
        """Parse until `end`, by `perf_counter`, but at least one piece."""
        self._waits = False
        self._parse_until(end)

    def _has_place(self) -> bool:
        """Return whether there is room for the next request or message."""
        raise NotImplementedError

    def _parse(self, piece: bytes) -> None:
        """Parse one piece."""
        raise NotImplementedError

    def _parse_until(self, end: float) -> None:
        while self._came and not self.transport.is_closing() and self._has_place() and perf_counter() < end:
            piece = bytes(self._came[:PIECE])
            del self._came[:PIECE]
            self._parse(piece)
        if self.transport.is_closing():
            self._came.clear()
        elif self._came:
            self.transport.pause_reading()
            if self._has_place():
                self.take_turn_soon()
        elif self._has_place():
            self.transport.resume_reading()
