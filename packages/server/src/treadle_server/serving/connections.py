"""Connections before their token: uvicorn's protocols, with bounds on what a stranger may send, and for how long.

A connection is a stranger's until the application has accepted a token on it and says so (access/trust.py).
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
from treadle_server.serving.counted import Counted
from treadle_server.serving.heard import EndsHeard
from treadle_server.serving.refuses import Refuses
from treadle_server.serving.turns import InTurns
from treadle_server.serving.unread import EndsUnread
from treadle_server.serving.weighed import Weighed

MOST_HEADER = 8 * 1024
"""Bytes of a request's first line and headers, and of what a body in chunks has beside its bytes, on end."""

HEADER_SECONDS = 10.0
"""How long a request's header may take; also what is left of a body when its answer is out."""

IDLE_SECONDS = 75
"""How long a connection over which nothing is asked stays open, one whose request has begun and goes not on, and one
whose answer is not read."""

MOST_FIRST_FRAMES = 100
"""Frames of a socket before its token was accepted: it wants one, a hello, and each costs the server's time."""

MOST_FRAGMENTS = 16_384
"""Frames of one message: endlessly many empty ones are no message that grows too long, but they are kept."""


class _NoRequest(Exception):
    """The header has more bytes than it may, or not the one Host that it must have."""


class _Flow(FlowControl):
    """uvicorn's flow control, by which what is not parsed yet goes before what is not read yet."""

    def __init__(self, transport: Transport, resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        """Go on with what was sent."""
        if self.read_paused:
            self.read_paused = False
            self._resumed()


class HttpConnection(Counted, Refuses, InTurns, HttpToolsProtocol):
    """An HTTP connection that is counted, and has bounds on its headers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_bytes = 0
        self._headers_begun = 0
        self._body_came = False
        self._heard_at = 0.0
        self._deadline: TimerHandle | None = None
        self._wrong = ""
        """What is wrong with the request, where it is not that it can't be parsed."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take the connection, or turn it away when there are too many."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.take_turn_soon)
        self._come()
        if self._is_in:
            self._arm(HEADER_SECONDS)
        else:
            why = "there are too many connections; try again"
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, why, "retry-after: 1\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place free, and tell who answers that nobody is there: uvicorn tells the last request alone."""
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
        """Take note that the client is there, and parse what came."""
        self._heard_at = self.loop.time()
        super().data_received(data)

    def _has_place(self) -> bool:
        """Return whether no request waits for the one before it: uvicorn would keep as many as come."""
        return not self.flow.read_paused and not self.pipeline

    def _parse(self, piece: bytes) -> None:
        """Parse what came, unless its header is too long."""
        if not self._is_in or self.transport.is_closing():
            return
        was_body, self._headers_begun, self._body_came = self._phase == "body", 0, False
        HttpToolsProtocol.data_received(self, piece)
        if self._phase == "head" and not was_body and self._headers_begun < 2:
            self._header_bytes += len(piece)
        elif self._phase == "body" and was_body:
            # Sizes of chunks with their extensions, or a trailer, which the parser keeps as it keeps headers.
            self._header_bytes = 0 if self._body_came else self._header_bytes + len(piece)
        if self._header_bytes > MOST_HEADER and not self.transport.is_closing():
            self._refuse_header()
        self._watch()

    def on_message_begin(self) -> None:
        """Begin with a request."""
        self._phase, self._header_bytes = "head", 0
        self._headers_begun += 1
        super().on_message_begin()
        self.scope[SCOPE_KEY] = self  # type: ignore[literal-required]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; what stands behind a body is none, whatever it is called (RFC 9110, 6.5.1)."""
        if self._phase == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request; raise `_NoRequest`, which is answered with 431 or 400, for a header that is none."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEADER:
            self._header_bytes = size
            raise _NoRequest
        if self.parser.get_http_version() == "1.1" and [name for name, _ in self.headers].count(b"host") != 1:
            self._wrong = "a request of HTTP/1.1 has one Host header (RFC 9112, 3.2)"
            raise _NoRequest
        self._phase, self._header_bytes = "body", 0
        self._disarm()
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._begun = cycle
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body_came = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take note that the next thing to come is another request."""
        self._phase = "idle"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on, but do not wait for the rest of a body for ever."""
        super().on_response_complete()
        if self.transport.is_closing():
            self.expect_reading(is_expected=True)
        self._disarm()
        self._watch()
        # The first of several that came at once wanted the reading to go on: there was no place while others waited.
        if self._came or not self.transport.is_reading():
            self.take_turn_soon()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection over which nothing is asked; uvicorn would wait for ever until its answers are read."""
        super().timeout_keep_alive_handler()
        self.expect_reading(is_expected=True)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, and what has too long a header."""
        if self._header_bytes > MOST_HEADER:
            self._refuse_header()
        else:
            self.refuse_request(HTTPStatus.BAD_REQUEST, self._wrong or msg)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the socket's protocol, which is counted in its stead."""
        self._leave()
        self.expect_reading(is_expected=False)
        super().handle_websocket_upgrade()
        # Who asks for a socket has to wait for the answer before he says more.
        self._came.clear()
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _refuse_header(self) -> None:
        why = f"a request's header has {MOST_HEADER} bytes at most"
        self.refuse_request(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)

    # How long it may take

    @property
    def reading_seconds(self) -> float:
        """As long as nothing may be asked."""
        return IDLE_SECONDS

    def _watch(self) -> None:
        """Have the connection closed in time when it is the client for whom the server waits.

        One that became a socket is not an HTTP one any more: nothing of it is waited for here.
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
        """Whether the application waits for more of a body; one without an answer may take hours, but is not silent."""
        return self._phase == "body" and not self._is_answered

    def _arm(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._on_deadline)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        if self._reads_body and (left := self._patience) > 0:
            self._arm(left)
        elif self._phase == "body":
            self.transport.abort()
        else:
            self.refuse(HTTPStatus.REQUEST_TIMEOUT, f"no whole header came within {HEADER_SECONDS:.0f} seconds")

    @property
    def _patience(self) -> float:
        """How many seconds the client may still be silent; whoever is not listened to, is not silent."""
        is_heard = self.flow.read_paused or self._came
        return IDLE_SECONDS if is_heard else self._heard_at + IDLE_SECONDS - self.loop.time()


class SocketConnection(EndsHeard, Counted, Weighed, EndsUnread, InTurns, WebSocketsSansIOProtocol):
    """A socket whose first frame is small, and whose messages are not until a token was accepted."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._first_frames = 0
        self._late_pong: list[bytes] = []
        self._most = self.conn.max_message_size
        self.conn.max_message_size = min(MOST_HELLO, self._most or MOST_HELLO)

    def connection_made(self, transport: BaseTransport) -> None:
        """Take over a connection that was counted as an HTTP one."""
        super().connection_made(transport)
        self._come()
        if not self._is_in:
            cast("Transport", transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place free."""
        self._leave()
        super().connection_lost(exc)

    def handle_connect(self, event: Request) -> None:
        """Start the session, which tells when it has accepted a token."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope[SCOPE_KEY] = self  # type: ignore[literal-required]

    # What is read

    def _has_place(self) -> bool:
        """Return whether no message waits for the session to take it."""
        return not self.read_paused

    def _parse(self, piece: bytes) -> None:
        WebSocketsSansIOProtocol.data_received(self, piece)
        if not self.transport.is_closing():
            try:
                self.weigh()
            except TooManyRequests as error:
                self._fail(CloseCode.TRY_AGAIN_LATER, fitting(error.detail))

    async def receive(self) -> ASGIReceiveEvent:
        """Give the session its next message, and go on with what is not parsed yet when it was the last."""
        message = await self.next_message()
        if self.read_paused and self.queue.empty():
            self._go_on_reading()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send what the session says; behind its good-bye the client's own is read, and all before it."""
        await super().send(message)
        if self.close_sent:
            # A refusal ends the handshake too: uvicorn took each for a defect, and anybody could fill the log with it.
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
        """Do what the frames say, unless a stranger sends more than anybody who wants to come in."""
        if not self._is_trusted:
            self._first_frames += len(self.conn.events)
            if self._first_frames > MOST_FIRST_FRAMES:
                self.drop()
                return
        super().handle_events()

    def handle_cont(self, event: Frame) -> None:
        """Add a frame to its message, unless that is cut into endlessly many."""
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
        else:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"a message has {MOST_FRAGMENTS} frames at most")

    def _fail(self, code: CloseCode, why: str) -> None:
        if not self.close_sent:
            self.conn.fail(code, why)
            self.handle_parser_exception()

    def handle_ping(self) -> None:
        """Answer a ping; to a client that does not read, only the last one is answered, when it does (RFC 6455, 5.5.3).

        Its pongs would wait in memory, as many as it sends pings.
        """
        if not (pongs := self.conn.data_to_send()):
            return  # sent with that of a ping before it, which came in the same piece
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        else:
            self._late_pong = pongs[-1:]

    # Whether the client reads

    @property
    def reading_seconds(self) -> float:
        """As long as the answer to a ping may take."""
        return self.config.ws_ping_timeout or 0

    def keepalive_timeout(self) -> None:
        """Say good-bye to a client that answers no ping; uvicorn would wait for ever until it has read that."""
        super().keepalive_timeout()
        self.expect_reading(is_expected=True)

    def resume_writing(self) -> None:
        """Let the session send again, behind the pong that waits."""
        super().resume_writing()
        if self._late_pong:
            self.transport.write(b"".join(self._late_pong))
            self._late_pong = []

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; of a text that is no UTF-8 uvicorn would log a traceback, for whoever sends one."""
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
        """Answer the request for a socket with 500, unless it was answered: a server that stops does so first."""
        if not self.conn.eof_sent:
            super().send_500_response()

    def trust(self) -> None:
        """Take messages of any size that the settings allow."""
        super().trust()
        self.conn.max_message_size = self._most
