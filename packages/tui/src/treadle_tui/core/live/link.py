"""The connection to a real server: the SDK's session, turned into what the feed understands."""

import asyncio
from collections.abc import Callable
from typing import Any

from treadle.clock import monotonic
from treadle.errors import ConnectionFailed, ProtocolMismatch, SocketRefused, TreadleError, Unauthorized
from treadle.transport.bearer import Bearer
from treadle.transport.session import Session
from treadle_tui.core.live.feed import Event, Lost, Opened, Pushed

AGAIN_SECONDS = 3.0
"""How long to wait after the server refused for good: the token or the server may be another one by then.

So long too after a connection that was given up before: not for its silence, which takes longer to be noticed, but for
what came over it, and the next one is told the same at once."""


class SessionLink:
    """Keeps a session open, and makes another one when it is dead or was refused."""

    def __init__(self, urls: tuple[str, ...], bearer: Bearer) -> None:
        self._urls = urls
        self._bearer = bearer
        self._session: Session | None = None
        self._dead = asyncio.Event()

    async def run(self, sink: Callable[[Event], None]) -> None:
        """Connect, stay connected, and tell `sink` what happens, until cancelled."""
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    await self._stay(group, sink)
            finally:
                # The sessions end with the group, and have nothing more to say to anyone.
                self._session = None

    async def _stay(self, group: asyncio.TaskGroup, sink: Callable[[Event], None]) -> None:
        self._dead.clear()
        session = self._session = self._make(sink)
        begun = monotonic()
        running = group.create_task(session.run())
        declared_dead = group.create_task(self._dead.wait())
        await asyncio.wait({running, declared_dead}, return_when=asyncio.FIRST_COMPLETED)
        is_told_wrong = running.done() or monotonic() - begun < AGAIN_SECONDS
        declared_dead.cancel()
        # A dead connection takes ten seconds to close; the next one does not wait for it.
        running.cancel()
        if is_told_wrong:
            await asyncio.sleep(AGAIN_SECONDS)

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a request; raises `ProblemError` or `ConnectionFailed`.

        Nothing is sent twice: the feed asks anew for what it watches, and a verb's fate must not be guessed.
        """
        if self._session is None or not self._session.is_connected:
            raise ConnectionFailed("not connected")
        try:
            answer: dict[str, Any] = await self._session.call(op, fields, resend=False)
        except (Unauthorized, ProtocolMismatch) as refused:
            # The session ended over it, and tells why by itself.
            raise ConnectionFailed(str(refused)) from refused
        return answer

    @property
    def received(self) -> int:
        """How many bytes have come over the present connection."""
        return 0 if self._session is None else self._session.received

    def reset(self) -> None:
        """Give the present connection up, for it is dead; a new one is made at once."""
        self._dead.set()

    def _make(self, sink: Callable[[Event], None]) -> Session:
        def tell(event: Event) -> None:
            # A session that was given up has nothing more to say.
            if self._session is session:
                sink(event)

        async def opened() -> None:
            if session.hello is not None:
                tell(Opened(session.hello))

        def down(error: TreadleError) -> None:
            # Who opens no websocket may be a proxy: the next answer may be another. Who says nothing at all, because it
            # stands still or the network leads nowhere, has refused nothing.
            by_server = isinstance(error, Unauthorized | ProtocolMismatch)
            refused = by_server or (isinstance(error, SocketRefused) and not error.is_silent)
            tell(Lost(str(error), refused=refused, is_final=by_server, denied=isinstance(error, Unauthorized)))

        session = Session(
            self._urls,
            self._bearer,
            on_push=lambda push: tell(Pushed(push)),
            on_connect=opened,
            on_down=down,
            # The banner says at once what is wrong; it is the session that goes on trying.
            patience=0.0,
            first_patience=0.0,
            client="treadle watch",
        )
        return session
