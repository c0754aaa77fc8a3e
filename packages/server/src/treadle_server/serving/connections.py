"""The connections of uvicorn, with limits on what a stranger may send, and for how long.

A connection is a stranger's until the application accepts a token on it, and says so (access/trust.py).
"""

from asyncio import TimerHandle, Transport
from asyncio.transports import BaseTransport
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from treadle_server.access.trust import SCOPE_KEY
from treadle_server.errors import TooManyRequests
from treadle_server.live.connection import fitting
from treadle_server.live.session import MOST_HELLO
from treadle_server.serving.close_frames import DeliversCloseFrame
from treadle_server.serving.connection_places import HoldsPlace
from treadle_server.serving.message_limits import LimitsMessages
from treadle_server.serving.refuses import Refuses
from treadle_server.serving.silent_clients import EndsSilentClients
from treadle_server.serving.slow_readers import EndsSlowReaders
from treadle_server.serving.turns import InTurns

MOST_HEADER = 8 * 1024
"""Bytes of a request's first line and headers, and of a chunked body's framing without data in between."""

HEADER_SECONDS = 10.0
"""How long a request's header may take, and the rest of a body after its answer."""

IDLE_SECONDS = 75
"""How long a connection stays open without a request, in the middle of a body that does not go on, and while its
answer is not read."""

MOST_FIRST_FRAMES = 100
"""Frames of a socket before its token is accepted: it needs one, the hello, and each takes the server's time."""

MOST_FRAGMENTS = 16_384
"""Frames of one message: empty ones do not add to its size, but take memory."""


class _NoRequest(Exception):
    """The header is too large, or does not have exactly one Host."""


class _Flow(FlowControl):
    """uvicorn's flow control; when it resumes, bytes that were not parsed yet come before new ones."""

    def __init__(self, transport: Transport, resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        """Continue with the bytes that were received."""
        if self.read_paused:
            self.read_paused = False
            self._resumed()


class HttpConnection(HoldsPlace, Refuses, InTurns, HttpToolsProtocol):
    """An HTTP connection that is counted, with limits on its headers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_bytes = 0
        self._headers_begun = 0
        self._body_came = False
        self._heard_at = 0.0
        self._deadline: TimerHandle | None = None
        self._wrong = ""
        """What is wrong with the request, other than that it can't be parsed."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Accept the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.take_turn_soon)
        self._come()
        if self._is_in:
            self._arm(HEADER_SECONDS)
        else:
            why = "too many connections; try again"
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, why, "retry-after: 1\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place, and tell the request in progress that its client is gone: uvicorn tells only the last one."""
        self._leave()
        super().connection_lost(exc)
        self.pipeline.clear()
        if self._begun is not None and not self._begun.response_complete:
            self._begun.disconnected = True
            self._begun.message_event.set()

    def _leave(self) -> None:
        self._disarm()
        super()._leave()

    # What is read

    def data_received(self, data: bytes) -> None:
        """Note that the client has sent something, and parse it."""
        self._heard_at = self.loop.time()
        super().data_received(data)

    def _has_place(self) -> bool:
        """Return whether no request waits for the one before it: uvicorn would queue any number of them."""
        return not self.flow.read_paused and not self.pipeline

    def _parse(self, piece: bytes) -> None:
        """Parse a piece, unless its header is too large."""
        if not self._is_in or self.transport.is_closing():
            return
        was_body, self._headers_begun, self._body_came = self._phase == "body", 0, False
        HttpToolsProtocol.data_received(self, piece)
        if self._phase == "head" and not was_body and self._headers_begun < 2:
            self._header_bytes += len(piece)
        elif self._phase == "body" and was_body:
            # Chunk sizes with their extensions, or a trailer: the parser keeps these in memory like headers.
            self._header_bytes = 0 if self._body_came else self._header_bytes + len(piece)
        if self._header_bytes > MOST_HEADER and not self.transport.is_closing():
            self._refuse_header()
        self._watch()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._phase, self._header_bytes = "head", 0
        self._headers_begun += 1
        super().on_message_begin()
        self.scope[SCOPE_KEY] = self  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, but no trailer: that is not a header, whatever its name is (RFC 9110, 6.5.1)."""
        if self._phase == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request. Raises `_NoRequest`, which is answered with 431 or 400, for an invalid header."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEADER:
            self._header_bytes = size
            raise _NoRequest
        if self.parser.get_http_version() == "1.1" and [name for name, _ in self.headers].count(b"host") != 1:
            self._wrong = "an HTTP/1.1 request must have exactly one Host header (RFC 9112, 3.2)"
            raise _NoRequest
        self._header_bytes = 0
        self._disarm()
        super().on_headers_complete()  # which raises where the target is none of a server's, as with CONNECT
        self._phase = "body"

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._begun = cycle
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._body_came = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that another request may follow."""
        self._phase = "idle"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, but do not wait for ever for the rest of a body."""
        super().on_response_complete()
        if self.transport.is_closing():
            self.expect_reading(is_expected=True)
        self._disarm()
        self._watch()
        # Reading and parsing stopped while requests that came at once waited for this one.
        if self._came or not self.transport.is_reading():
            self.take_turn_soon()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; uvicorn would wait for ever until its answers are read."""
        super().timeout_keep_alive_handler()
        self.expect_reading(is_expected=True)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not a request, or has too large a header."""
        if self._header_bytes > MOST_HEADER:
            self._refuse_header()
        else:
            self.refuse_request(HTTPStatus.BAD_REQUEST, self._wrong or msg)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the websocket's protocol, which is counted instead."""
        if self.refuse_websocket():
            return
        self._leave()
        self.expect_reading(is_expected=False)
        super().handle_websocket_upgrade()
        # A client that asks for a websocket must wait for the answer before it sends more.
        self._came.clear()
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _refuse_header(self) -> None:
        why = f"a request's header may have {MOST_HEADER} bytes at most"
        self.refuse_request(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)

    # How long it may take

    @property
    def reading_seconds(self) -> float:
        """As long as a connection may be idle."""
        return IDLE_SECONDS

    def _watch(self) -> None:
        """Set a deadline if the server waits for the client.

        A connection that became a websocket is no longer an HTTP one, and has none here.
        """
        is_kept = self._phase == "idle" and self.timeout_keep_alive_task is not None
        is_over = not self._is_in or self.transport.is_closing()
        is_answering = self._phase == "idle" and not self._is_answered
        if is_over or is_kept or self.pipeline or is_answering:
            self._disarm()
        elif self._deadline is None:
            self._arm(IDLE_SECONDS if self._reads_body else HEADER_SECONDS)

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _reads_body(self) -> bool:
        """Whether the application waits for more of a body; an upload may take hours, but must not pause for long."""
        return self._phase == "body" and not self._is_answered

    def _arm(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._on_deadline)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        if self._reads_body and (left := self._silence_left) > 0:
            self._arm(left)
        elif self._phase == "body":
            self.transport.abort()
        else:
            self.refuse(HTTPStatus.REQUEST_TIMEOUT, f"the header was not complete within {HEADER_SECONDS:.0f} seconds")

    @property
    def _silence_left(self) -> float:
        """How many seconds the client may still be silent; it counts as silent only while the server reads."""
        is_heard = self.flow.read_paused or self._came
        return IDLE_SECONDS if is_heard else self._heard_at + IDLE_SECONDS - self.loop.time()


class SocketConnection(
    DeliversCloseFrame,
    HoldsPlace,
    LimitsMessages,
    EndsSilentClients,
    EndsSlowReaders,
    InTurns,
    WebSocketsSansIOProtocol,
):
    """A websocket whose messages must be small until a token is accepted."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._first_frames = 0
        self._late_pong: list[bytes] = []
        self._most = self.conn.max_message_size
        self.conn.max_message_size = min(MOST_HELLO, self._most or MOST_HELLO)

    def connection_made(self, transport: BaseTransport) -> None:
        """Take over a connection that was counted as an HTTP one until now."""
        super().connection_made(transport)
        self._come()
        if not self._is_in:
            cast("Transport", transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place."""
        self._leave()
        super().connection_lost(exc)

    def handle_connect(self, event: Request) -> None:
        """Start the session, which says when it has accepted a token."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope[SCOPE_KEY] = self  # type: ignore[literal-required]

    # What is read

    def _has_place(self) -> bool:
        """Return whether no message waits for the session."""
        return not self.read_paused

    def _parse(self, piece: bytes) -> None:
        WebSocketsSansIOProtocol.data_received(self, piece)
        if not self.transport.is_closing():
            try:
                self.weigh()
            except TooManyRequests as error:
                self._fail(CloseCode.TRY_AGAIN_LATER, fitting(error.detail))

    async def receive(self) -> ASGIReceiveEvent:
        """Return the session's next message; if none is left after it, go on reading."""
        message = await self.next_message()
        if self.read_paused and self.queue.empty():
            self._go_on_reading()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the session; after a close frame, read on up to the client's own."""
        await super().send(message)
        if self.close_sent:
            # A refusal ends the handshake too. uvicorn logged each as a defect, so that anybody could fill the log.
            self.handshake_complete = True
            if self._came:
                self.take_turn_soon()

    def _go_on_reading(self) -> None:
        self.read_paused = False
        if self._came:
            self.take_turn_soon()
        else:
            self.transport.resume_reading()

    def handle_events(self) -> None:
        """Handle frames, unless a stranger sends more of them than a client needs to send its token."""
        if not self._is_trusted:
            self._first_frames += len(self.conn.events)
            if self._first_frames > MOST_FIRST_FRAMES:
                self.drop()
                return
        super().handle_events()

    def handle_cont(self, event: Frame) -> None:
        """Add a frame to its message, unless that has too many frames."""
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
        else:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"a message may have {MOST_FRAGMENTS} frames at most")

    def _fail(self, code: CloseCode, why: str) -> None:
        if not self.close_sent:
            self.conn.fail(code, why)
            self.handle_parser_exception()

    def handle_ping(self) -> None:
        """Answer a ping. While the client does not read, keep only the last pong for it (RFC 6455, 5.5.3).

        Otherwise a pong for each of its pings would wait in memory.
        """
        if not (pongs := self.conn.data_to_send()):
            return  # it was sent with the pong of an earlier ping in the same piece
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        else:
            self._late_pong = pongs[-1:]

    # Whether the client reads

    @property
    def reading_seconds(self) -> float:
        """As long as a pong may take."""
        return self.config.ws_ping_timeout or 0

    def resume_writing(self) -> None:
        """Send the pong that waits, and let the session send again."""
        super().resume_writing()
        if self._late_pong:
            self.transport.write(b"".join(self._late_pong))
            self._late_pong = []

    def send_receive_event_to_app(self) -> None:
        """Pass a message on, unless it is text with invalid UTF-8, for which uvicorn would log a traceback."""
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def send_500_response(self) -> None:
        """Answer the upgrade with 500, unless it was answered already, as by a server that stops."""
        if not self.conn.eof_sent:
            super().send_500_response()

    def trust(self) -> None:
        """Accept messages of any size that the settings allow."""
        super().trust()
        self.conn.max_message_size = self._most
