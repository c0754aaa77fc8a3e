"""Parses what connections send in turns, so that no flood of small things keeps the server from everybody else."""

from asyncio import AbstractEventLoop, Handle, Transport
from time import perf_counter
from typing import Any

PIECE = 4 * 1024
"""Bytes that are parsed at once: 600 of the smallest frames, some 5 ms of work."""

TURN_SECONDS = 0.005
"""How long pieces of one connection are parsed before others have their turn."""


class InTurns:
    """A connection whose bytes are parsed piece by piece, as long as there is place for what they say.

    uvloop reads up to 8 MB at once: a million empty frames, or 250,000 requests. Parsed as they came, those of a single
    connection without a token held the loop for 6.8 s, and kept a GB of requests that nobody had begun with.
    """

    transport: Transport
    loop: AbstractEventLoop

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._came = bytearray()
        """What is not parsed yet: less than one read of the loop's, for nothing is read beside it."""
        self._turn: Handle | None = None

    def data_received(self, data: bytes) -> None:
        """Parse what came, or as much as there is time and place for."""
        if not self._came and len(data) <= PIECE and self._has_place():
            self._parse(data)
        else:
            self._came += data
            if self._turn is None:
                self._take_turn()
            else:
                self.transport.pause_reading()

    def take_turn_soon(self) -> None:
        """Go on where there is place again; without anything to parse, go on reading."""
        if self._turn is None:
            self._turn = self.loop.call_soon(self._take_turn)

    def _has_place(self) -> bool:
        """Return whether what is parsed next would be begun with."""
        raise NotImplementedError

    def _parse(self, piece: bytes) -> None:
        """Do what the piece says, or keep it."""
        raise NotImplementedError

    def _take_turn(self) -> None:
        self._turn = None
        end = perf_counter() + TURN_SECONDS
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
