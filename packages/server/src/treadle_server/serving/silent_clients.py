"""Closes websockets whose clients say nothing; how late they answer a ping depends on what they have to read before."""

from asyncio import AbstractEventLoop
from typing import Any


class EndsSilentClients:
    """A websocket that is closed if nothing comes from its client, neither a pong nor anything else.

    A client that sends something is there, and answers a ping when it has read all that was sent before it, which takes
    long if that was much and its network is slow.
    """

    loop: AbstractEventLoop
    _heard_at = 0.0

    @property
    def reading_seconds(self) -> float:
        """How long a pong may take."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        """Note that the client has sent something."""
        self._heard_at = self.loop.time()
        super().data_received(data)  # type: ignore[misc]

    def keepalive_timeout(self) -> None:
        """Ping a client again that has sent something lately, and close the socket of any other.

        uvicorn would wait for ever until it has read that it was closed.
        """
        this: Any = self
        if self.loop.time() - self._heard_at < 1.5 * self.reading_seconds:
            this.send_keepalive_ping()
            return
        super().keepalive_timeout()  # type: ignore[misc]
        this.expect_reading(is_expected=True)
