"""The watch: a thread that beats for a worker whose event loop is blocked, over a connection of its own."""

import http.client
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json

from treadle.lease import BUSY_BEAT, Held, Leases, abort_margin

log = logging.getLogger("treadle.worker")

LATE = BUSY_BEAT * 2
"""Seconds without a heartbeat after which the watch sends one itself."""

Apply = Callable[[dict[str, Any], float], None]


def _end_process() -> None:
    os._exit(75)


class Watch:
    """Sends heartbeats over plain HTTP when the loop sends none, and enforces the end of targets' leases.

    `apply` is called from the thread with an answer. `abort` ends the process: a coroutine that holds a target, ignores
    its cancellation and has lost its lease can be stopped by nothing less, and another worker is about to start.
    """

    def __init__(
        self,
        leases: Leases,
        urls: tuple[str, ...],
        token: str | None,
        *,
        worker_id: Callable[[], str | None],
        apply: Apply,
        abort: Callable[[], None] = _end_process,
    ) -> None:
        self._leases = leases
        self._urls = urls
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._worker_id = worker_id
        self._apply = apply
        self._abort = abort
        self._stopping = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name="treadle-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the thread ends by itself within moments."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._pause()):
            self._end_lost_targets()
            if self._leases.held and time.monotonic() - self._leases.last_beat > LATE:
                self._beat()
        self._disconnect()

    def _pause(self) -> float:
        ends = [held.expires - abort_margin(held.lease) for held in self._targets()]
        left = min(ends, default=float("inf")) - time.monotonic()
        return max(0.01, min(1.0, left))

    def _targets(self) -> list[Held]:
        return [held for held in list(self._leases.held.values()) if held.has_target and held.code_runs and held.timer]

    def _end_lost_targets(self) -> None:
        for held in self._targets():
            if time.monotonic() < held.expires - abort_margin(held.lease):
                continue
            if held.kill is not None:
                held.kill()
                continue
            log.critical(
                "task %s holds the target %r past its lease and can't be stopped: the worker ends itself",
                held.key[0],
                held.claim.get("target"),
            )
            self._abort()

    def _beat(self) -> None:
        worker_id = self._worker_id()
        if worker_id is None:
            return
        sent = time.monotonic()
        for url in self._urls:
            try:
                answer = self._patch(url, f"/v1/workers/{worker_id}", to_json(self._leases.body()))
            except (OSError, http.client.HTTPException, ValueError) as error:
                log.warning("no heartbeat by the watch at %s: %s", url, error)
                self._disconnect()
                continue
            if answer is not None:
                # Known at once, so that a blocked loop isn't beaten for again before it is time.
                self._leases.last_beat = max(self._leases.last_beat, sent)
                self._apply(answer, sent)
            return

    def _patch(self, url: str, path: str, body: bytes) -> dict[str, Any] | None:
        split = urlsplit(url)
        if self._connection is None:
            if split.scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    split.netloc, timeout=BUSY_BEAT * 2, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(split.netloc, timeout=BUSY_BEAT * 2)
        self._connection.request("PATCH", split.path + path, body, self._headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            log.warning("the watch's heartbeat was answered %s: %s", response.status, content[:200])
            return None
        answer: dict[str, Any] = from_json(content)
        return answer

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None
