"""The fallback heartbeat: a thread with its own connection that beats for a worker whose event loop does not."""

import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json

from treadle.clock import monotonic
from treadle.errors import TreadleError, error_for
from treadle.transport.answers import reading
from treadle.transport.bearer import Bearer, Way, bearer_of
from treadle.transport.retries import QuietLog
from treadle.wire.problems import Problem
from treadle.wire.workers import BUSY_BEAT_SECONDS
from treadle.worker.lease import Leases

log: logging.Logger = logging.getLogger("treadle.worker")

MISSED = 2
"""How many heartbeats of the event loop are missed before this thread sends one."""

TIMEOUT = BUSY_BEAT_SECONDS * 2
"""Seconds that the server has for each step of a request."""

Apply = Callable[[dict[str, Any], float], None]


class FallbackHeartbeat:
    """Sends heartbeats over plain HTTP while the event loop sends none; `apply` gets the answers, in this thread."""

    def __init__(
        self,
        leases: Leases,
        urls: tuple[str, ...],
        token: str | Bearer | None,
        *,
        worker_id: Callable[[], str],
        apply: Apply,
    ) -> None:
        self._leases = leases
        self._urls = urls
        self._bearer = bearer_of(token)
        self._worker_id = worker_id
        self._apply = apply
        self._waits = QuietLog(log)
        self._stopping = threading.Event()
        self._connections: dict[Way, _PinnedConnection] = {}
        # In a copy of the context, so that its log lines, too, name the worker that is bound in it.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="treadle-heartbeat", daemon=True
        )

    def start(self) -> None:
        """Begin to check whether the event loop sends heartbeats."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; the thread ends within moments."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(min(1.0, self._leases.pace)):
            if self._leases.held and monotonic() - self._leases.last_beat > MISSED * self._leases.pace:
                self._beat()
        for way in list(self._connections):
            self._disconnect(way)

    def _beat(self) -> None:
        sent = monotonic()
        # All of them: the blocked loop hears of no push.
        body = to_json(self._leases.body(*list(self._leases.held.values())))
        for way in self._ways():
            try:
                answer = self._patch(way, f"/v1/workers/{self._worker_id()}", body)
                if answer is None:
                    continue  # another server may be fine
                with reading():
                    # Recorded at once: the blocked loop can't do it, and a target's code is ended according to what is
                    # recorded.
                    self._leases.note(answer, sent)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._waits.say(f"the heartbeat over HTTP at {way.url} failed too: {error}", "trying again")
                self._disconnect(way)
                continue
            self._apply(answer, sent)
            return

    def _ways(self) -> Iterator[Way]:
        for url in self._urls:
            try:
                yield from self._bearer.ways_now(url)
            except TreadleError as error:
                self._waits.say(f"the heartbeat over HTTP at {url} failed too: {error}", "trying again")

    def _patch(self, way: Way, path: str, body: bytes) -> dict[str, Any] | None:
        connection = self._connections.get(way)
        if connection is None:
            connection = self._connections[way] = _PinnedConnection(way)
        headers = {"Content-Type": "application/json"} | way.headers
        connection.request("PATCH", urlsplit(way.url).path + path, body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            said = _refusal(response.status, content)
            self._waits.say(f"the heartbeat over HTTP at {way.url} failed too: {said}", "trying again")
            return None
        self._waits.over()
        answer: dict[str, Any] = from_json(content)
        return answer

    def _disconnect(self, way: Way) -> None:
        if (connection := self._connections.pop(way, None)) is not None:
            with suppress(OSError):
                connection.close()


def _refusal(status: int, content: bytes) -> str:
    """Return what the server, or whatever answered in its place, says."""
    try:
        return str(error_for(Problem.model_validate_json(content)))
    except ValueError:
        return f"it answered {status}, which no Treadle server does"


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to the address of a `Way`, whatever its host name resolves to by now."""

    def __init__(self, way: Way) -> None:
        split = urlsplit(way.url)
        self._is_secure = split.scheme == "https"
        port = split.port or (443 if self._is_secure else 80)
        super().__init__(split.hostname or "", port, timeout=TIMEOUT)
        self._address = way.address or self.host

    def connect(self) -> None:
        """Connect; http.client calls this before it sends anything."""
        self.sock = socket.create_connection((self._address, self.port), TIMEOUT)
        if self._is_secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)
