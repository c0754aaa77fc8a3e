"""Closes failed websockets so that their clients receive the close frame with the reason.

Closing a connection with unread bytes resets it, which discards the close frame. A client whose frame was too large
then mostly saw only a broken connection, and sent the frame again.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class DeliversCloseFrame(WebSocketsSansIOProtocol):
    """A websocket that, after a failure, reads and drops everything until its client closes it or a timeout."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._has_failed = False

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, unless the socket has failed."""
        if not self._has_failed:
            super().data_received(data)

    def handle_parser_exception(self) -> None:
        """Send the close frame and the end of the stream; the client then closes the connection as usual."""
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
