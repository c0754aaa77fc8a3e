"""Ends connections whose client reads nothing of what it is sent: that, and their place, would be kept for ever."""

from asyncio import AbstractEventLoop, TimerHandle, Transport


class EndsUnread:
    """A connection whose client has to read: one that neither does nor goes away was never closed.

    What it has taken is seen by what the system takes from the process, as nginx's `send_timeout` sees it.
    """

    transport: Transport
    loop: AbstractEventLoop
    _unread: TimerHandle | None = None

    @property
    def reading_seconds(self) -> float:
        """How long the client may read nothing of what it is sent."""
        raise NotImplementedError

    def pause_writing(self) -> None:
        """Have who writes wait until the client has read, if it does."""
        super().pause_writing()  # type: ignore[misc]
        self.expect_reading(is_expected=True)

    def resume_writing(self) -> None:
        """Let more be written; of a connection that closes the rest is to be read too."""
        super().resume_writing()  # type: ignore[misc]
        self.expect_reading(is_expected=self.transport.is_closing())

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self.expect_reading(is_expected=False)
        super().connection_lost(exc)  # type: ignore[misc]

    def expect_reading(self, *, is_expected: bool) -> None:
        """End the connection when its client has read nothing for so long."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        if is_expected and (size := self.transport.get_write_buffer_size()):
            self._unread = self.loop.call_later(self.reading_seconds, self._look_at_unread, size)

    def _look_at_unread(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self.expect_reading(is_expected=True)
        else:
            self.transport.abort()
