"""Sockets whose messages are weighed with the bodies of requests: all together they have a bound."""

from asyncio import Queue
from typing import Any

from uvicorn._types import ASGIReceiveEvent
from websockets.frames import Frame
from websockets.server import ServerProtocol

from treadle_server.operations.arriving import Arriving


class Weighed:
    """A socket that tells how much it keeps of what came, until the session asks for what is behind it."""

    conn: ServerProtocol
    frames: list[bytes]
    queue: Queue[ASGIReceiveEvent]

    def __init__(self, *arguments: Any, arriving: Arriving, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._arriving = arriving
        self._kept = 0
        """Bytes of it that `arriving` counts."""
        self._continued = 0
        """Bytes of the message that comes, behind its first frame."""
        self._whole = self._taken = 0
        """Bytes of the messages that the session is not done with, and of the one that it has."""

    def weigh(self) -> None:
        """Tell how much is kept. Raises `TooManyRequests` when a message grows, and all of them are too large."""
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
        """Weigh what continues a message."""
        self._continued += len(event.data)
        super().handle_cont(event)  # type: ignore[misc]

    def send_receive_event_to_app(self) -> None:
        """Weigh the whole message until the session is done with it."""
        self._whole += sum(map(len, self.frames))
        self._continued = 0
        super().send_receive_event_to_app()  # type: ignore[misc]

    async def next_message(self) -> ASGIReceiveEvent:
        """Return the next message: the session is done with the one before."""
        self._whole -= self._taken
        # Of a connection that is lost nothing is counted any more.
        self._note(self._kept - min(self._taken, self._kept))
        self._taken = 0
        message = await self.queue.get()
        if message["type"] == "websocket.receive":
            text, data = message.get("text"), message.get("bytes")
            self._taken = len(data or b"") if text is None else len(text.encode())
        return message
