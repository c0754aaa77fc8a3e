"""The pulse: a thread that beats for a worker whose event loop doesn't, over a connection of its own."""

import http.client
import logging
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json

from treadle.clock import monotonic
from treadle.lease import BUSY_BEAT, Leases

log = logging.getLogger("treadle.worker")

MISSED = 2
"""Heartbeats of the loop that are missed before the pulse sends one."""

TIMEOUT = BUSY_BEAT * 2
"""Seconds that the server has for each step of a request."""

Apply = Callable[[dict[str, Any], float], None]


class Pulse:
    """Sends heartbeats over plain HTTP as long as the loop sends none; `apply` gets the answers, in this thread."""

    def __init__(
        self,
        leases: Leases,
        urls: tuple[str, ...],
        token: str | None,
        *,
        worker_id: Callable[[], str | None],
        apply: Apply,
    ) -> None:
        self._leases = leases
        self._urls = urls
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._worker_id = worker_id
        self._apply = apply
        self._stopping = threading.Event()
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._thread = threading.Thread(target=self._run, name="treadle-pulse", daemon=True)

    def start(self) -> None:
        """Begin to listen for the loop's heartbeats."""
        self._thread.start()

    def stop(self) -> None:
        """End; the thread is gone within moments."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(min(1.0, self._leases.pace)):
            if self._leases.held and monotonic() - self._leases.last_beat > MISSED * self._leases.pace:
                self._beat()
        for url in list(self._connections):
            self._disconnect(url)

    def _beat(self) -> None:
        worker_id = self._worker_id()
        if worker_id is None:
            return
        sent = monotonic()
        body = to_json(self._leases.body())
        for url in self._urls:
            try:
                answer = self._patch(url, f"/v1/workers/{worker_id}", body)
            except (OSError, http.client.HTTPException, ValueError) as error:
                log.warning("no heartbeat over HTTP at %s either: %s", url, error)
                self._disconnect(url)
                continue
            if answer is not None:
                # Noted at once: the loop, which is blocked, can't, and a target's code is ended by what is noted.
                self._leases.note(answer, sent)
                self._apply(answer, sent)
            return

    def _patch(self, url: str, path: str, body: bytes) -> dict[str, Any] | None:
        connection = self._connections.get(url)
        if connection is None:
            connection = self._connections[url] = _connect(url)
        connection.request("PATCH", urlsplit(url).path + path, body, self._headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            log.warning("a heartbeat over HTTP was answered %s: %s", response.status, content[:200])
            return None
        answer: dict[str, Any] = from_json(content)
        return answer

    def _disconnect(self, url: str) -> None:
        if (connection := self._connections.pop(url, None)) is not None:
            with suppress(OSError):
                connection.close()


def _connect(url: str) -> http.client.HTTPConnection:
    split = urlsplit(url)
    if split.scheme == "https":
        return http.client.HTTPSConnection(split.netloc, timeout=TIMEOUT, context=ssl.create_default_context())
    return http.client.HTTPConnection(split.netloc, timeout=TIMEOUT)
