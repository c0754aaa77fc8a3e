"""Ends sockets so that their clients hear why.

Who closes a connection on bytes that were not read resets it, and takes the good-bye from who was to read it: a client
whose frame was too large heard mostly that the connection had broken, and sent the frame again.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class EndsHeard(WebSocketsSansIOProtocol):
    """A socket that has failed is read, and what is read dropped, until its client goes or its time is over."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._has_failed = False

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless the socket has failed."""
        if not self._has_failed:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        """Say why, and that nothing more comes; the client ends the connection then, as after any good-bye."""
        if (good_bye := self.conn.close_sent) is None or self.close_sent:
            return
        self._has_failed = self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": good_bye.code, "reason": good_bye.reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.close)
        self.read_paused = False
        self.transport.resume_reading()
