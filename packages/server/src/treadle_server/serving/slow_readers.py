"""Closes connections whose clients do not read: their answers and their places would be kept for ever."""

from asyncio import AbstractEventLoop, TimerHandle, Transport


class EndsSlowReaders:
    """A connection that is closed if its client neither reads nor goes away.

    The client reads if the system takes bytes from the process, which is what nginx's `send_timeout` measures too.
    """

    transport: Transport
    loop: AbstractEventLoop
    _unread: TimerHandle | None = None

    @property
    def reading_seconds(self) -> float:
        """How long the client may read nothing."""
        raise NotImplementedError

    def pause_writing(self) -> None:
        """Let writers wait until the client has read, and expect it to."""
        super().pause_writing()  # type: ignore[misc]
        self.expect_reading(is_expected=True)

    def resume_writing(self) -> None:
        """Let writers go on; if the connection is closing, its rest still has to be read."""
        super().resume_writing()  # type: ignore[misc]
        self.expect_reading(is_expected=self.transport.is_closing())

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self.expect_reading(is_expected=False)
        super().connection_lost(exc)  # type: ignore[misc]

    def expect_reading(self, *, is_expected: bool) -> None:
        """Start or stop to watch for a client that reads nothing for `reading_seconds`."""
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
