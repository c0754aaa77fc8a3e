"""The connection to a real server: turns the SDK's session into the feed's events."""

import asyncio
from collections.abc import Callable
from typing import Any

from treadle.clock import monotonic
from treadle.errors import ConnectionFailed, ProtocolMismatch, SocketRefused, TreadleError, Unauthorized
from treadle.transport.bearer import Bearer
from treadle.transport.session import Session
from treadle_tui.core.live.feed import Event, Lost, Opened, Pushed

RETRY_SECONDS = 3.0
"""How long to wait after a final refusal: by then the token or the server may be a different one.

Also how long to wait after a connection that was reset within this time. Silence takes longer to be noticed, so the
cause was an unreadable message, and the next connection would get the same one at once."""


class SessionLink:
    """Keeps a session open, and replaces it when it is dead or was refused."""

    def __init__(self, urls: tuple[str, ...], bearer: Bearer) -> None:
        self._urls = urls
        self._bearer = bearer
        self._session: Session | None = None
        self._dead = asyncio.Event()

    async def run(self, sink: Callable[[Event], None]) -> None:
        """Connect and stay connected, and report each event to `sink`, until cancelled."""
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    await self._stay(group, sink)
            finally:
                # The sessions end with the task group; ignore their last events.
                self._session = None

    async def _stay(self, group: asyncio.TaskGroup, sink: Callable[[Event], None]) -> None:
        self._dead.clear()
        session = self._session = self._make(sink)
        begun = monotonic()
        running = group.create_task(session.run())
        declared_dead = group.create_task(self._dead.wait())
        await asyncio.wait({running, declared_dead}, return_when=asyncio.FIRST_COMPLETED)
        ended_early = running.done() or monotonic() - begun < RETRY_SECONDS
        declared_dead.cancel()
        # A dead connection takes ten seconds to close; don't wait for that.
        running.cancel()
        if ended_early:
            await asyncio.sleep(RETRY_SECONDS)

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the answer. Raises `ProblemError` or `ConnectionFailed`.

        Nothing is sent twice: the feed renews its own subscriptions, and it is unknown whether a lost verb took effect.
        """
        if self._session is None or not self._session.is_connected:
            raise ConnectionFailed("not connected")
        try:
            answer: dict[str, Any] = await self._session.call(op, fields, resend=False)
        except (Unauthorized, ProtocolMismatch) as refused:
            # This ended the session, which reports the reason itself.
            raise ConnectionFailed(str(refused)) from refused
        return answer

    @property
    def received(self) -> int:
        """The bytes received over the current connection."""
        return 0 if self._session is None else self._session.received

    def reset(self) -> None:
        """Drop the current connection as dead and make a new one at once."""
        self._dead.set()

    def _make(self, sink: Callable[[Event], None]) -> Session:
        def tell(event: Event) -> None:
            # Ignore events of a session that was replaced.
            if self._session is session:
                sink(event)

        async def opened() -> None:
            if session.hello is not None:
                tell(Opened(session.hello))

        def down(error: TreadleError) -> None:
            # A refused websocket may come from a proxy, so the next attempt may succeed. A server that says nothing at
            # all, because it is stalled or unreachable, has refused nothing.
            by_server = isinstance(error, Unauthorized | ProtocolMismatch)
            refused = by_server or (isinstance(error, SocketRefused) and not error.is_silent)
            tell(Lost(str(error), refused=refused, is_final=by_server, denied=isinstance(error, Unauthorized)))

        session = Session(
            self._urls,
            self._bearer,
            on_push=lambda push: tell(Pushed(push)),
            on_connect=opened,
            on_down=down,
            # The banner shows at once what is wrong, while the session keeps trying.
            patience=0.0,
            first_patience=0.0,
            client="treadle watch",
        )
        return session
