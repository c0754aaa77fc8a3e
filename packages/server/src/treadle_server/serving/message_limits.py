"""Websockets whose messages count towards the same limit as the bodies of requests."""

from asyncio import Queue
from typing import Any

from uvicorn._types import ASGIReceiveEvent
from websockets.frames import Frame
from websockets.server import ServerProtocol

from treadle_server.operations.arriving import Arriving


class LimitsMessages:
    """A websocket that counts the bytes of its messages until the session has finished with them."""

    conn: ServerProtocol
    frames: list[bytes]
    queue: Queue[ASGIReceiveEvent]

    def __init__(self, *arguments: Any, arriving: Arriving, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._arriving = arriving
        self._kept = 0
        """Bytes of this socket that `arriving` counts."""
        self._continued = 0
        """Bytes of the unfinished message, after its first frame."""
        self._whole = self._taken = 0
        """Bytes of the complete messages that the session has not finished, and of the one that it is working on."""

    def weigh(self) -> None:
        """Report how much is kept. Raises `TooManyRequests` if a message grows while all together are too large."""
        growing = len(self.conn.reader.buffer) + self._continued + (len(self.frames[0]) if self.frames else 0)
        self._note(growing + self._whole, growing)

    def _note(self, kept: int, growing: int = 0) -> None:
        before, self._kept = self._kept, kept
        self._arriving.note(before, kept, growing=growing)

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep nothing more."""
        self._note(0)
        super().connection_lost(exc)  # type: ignore[misc]

    def handle_cont(self, event: Frame) -> None:
        """Count a frame that continues a message."""
        self._continued += len(event.data)
        super().handle_cont(event)  # type: ignore[misc]

    def send_receive_event_to_app(self) -> None:
        """Count the whole message until the session has finished with it."""
        self._whole += sum(map(len, self.frames))
        self._continued = 0
        super().send_receive_event_to_app()  # type: ignore[misc]

    async def next_message(self) -> ASGIReceiveEvent:
        """Return the next message; the session has finished with the one before."""
        self._whole -= self._taken
        # A lost connection counts nothing any more.
        self._note(self._kept - min(self._taken, self._kept))
        self._taken = 0
        message = await self.queue.get()
        if message["type"] == "websocket.receive":
            text, data = message.get("text"), message.get("bytes")
            self._taken = len(data or b"") if text is None else len(text.encode())
        return message
